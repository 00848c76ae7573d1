"""Found by Spark itself: a module of this kind of name makes ``spark.readStream.format("fairlead")`` known."""

from fairlead_ingest.io.topics.spark_source import FairleadDataSource as DefaultSource

__all__ = ["DefaultSource"]
