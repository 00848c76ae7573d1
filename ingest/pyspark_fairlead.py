"""Registers ``spark.readStream.format("fairlead")``; Spark finds modules named ``pyspark_*`` by itself."""

from fairlead_ingest.io.topics.spark_source import FairleadDataSource as DefaultSource

__all__ = ["DefaultSource"]
