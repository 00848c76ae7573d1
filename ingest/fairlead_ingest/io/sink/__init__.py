"""The Spark sinks ``fairlead_delta`` and ``fairlead_iceberg``: tasks write, the driver commits.

spark_sink    the names Spark looks for, the writers of streams and batches
task_writer   what one task does: files of good rows, of dead letters, counts
batch_commit  one batch into the table and its side tables, also beside other writers; the same for a backfill, less
              what the table has by now
side_tables   dead letters and gaps once each, also when a batch is tried again
batch_trace   the span of a batch in the traces of its messages

spark_sink ─▶ batch_commit ─▶ side_tables ─▶ io.table        spark_sink ─▶ task_writer ─▶ io.table
"""
