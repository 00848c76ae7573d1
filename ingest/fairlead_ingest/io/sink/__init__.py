"""The Spark sinks ``fairlead_delta``, ``fairlead_iceberg``, ``fairlead_parquet``: tasks write, the driver commits.

spark_sink    the names Spark looks for, the writers of streams and batches
task_writer   what one task does: files of good rows, of dead letters, counts
batch_commit  one batch into the table and its side tables, also beside other writers
side_tables   dead letters and gaps once each, also when a batch is tried again

spark_sink ─▶ batch_commit ─▶ side_tables ─▶ io.table        spark_sink ─▶ task_writer ─▶ io.table
"""
