"""The Spark sinks ``fairlead_delta`` and ``fairlead_iceberg``: tasks write, the driver commits.

spark_sink    the data sources registered with Spark, and the writers of streams and batches
task_writer   one task: writes files of good rows and of dead letters, and counts
batch_commit  commits a batch or a backfill to the table and its side tables, concurrently with other writers
side_tables   keeps dead letters and gaps unique when a batch is tried again
batch_trace   the span of a batch in the traces of its messages

spark_sink ─▶ batch_commit ─▶ side_tables ─▶ io.table        spark_sink ─▶ task_writer ─▶ io.table
"""
