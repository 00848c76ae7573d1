"""Registers ``writeStream.format("fairlead_delta")``; Spark finds modules named ``pyspark_*`` by itself."""

from fairlead_ingest.io.sink.spark_sink import DeltaSink as DefaultSource

__all__ = ["DefaultSource"]
