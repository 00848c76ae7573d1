"""The Spark sinks ``fairlead_delta`` and ``fairlead_parquet``: tasks write files, the driver commits them, once.

spark_sink   the names Spark looks for, the writers of streams and batches
side_tables  dead letters and gaps once each, also when a batch is tried again

spark_sink ─▶ side_tables ─▶ io.table
"""
