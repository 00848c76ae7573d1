"""Found by Spark itself: a module of this kind of name makes ``writeStream.format("fairlead_iceberg")`` known."""

from fairlead_ingest.io.sink.spark_sink import IcebergSink as DefaultSource

__all__ = ["DefaultSource"]
