"""Registers ``writeStream.format("fairlead_iceberg")``; Spark finds modules named ``pyspark_*`` by itself."""

from fairlead_ingest.io.sink.spark_sink import IcebergSink as DefaultSource

__all__ = ["DefaultSource"]
