"""The Spark data source ``fairlead``: topics of the messaging service, read and written.

spark_source         the names Spark looks for; a stream's batches cut into tasks
batch_planner        what the next batch of a stream reads
batch_reader         topics as a batch, narrowed by the query's own conditions
range_reader         one offset range in a task: page by page, one page ahead
retry                requests repeated while the service says "not now"
options              Spark's text options, typed and checked
topic_writer         a DataFrame into a topic, in one transaction
topic_stream_writer  a stream into a topic, one transaction for each batch

spark_source ─▶ batch_planner, batch_reader, topic_writer, topic_stream_writer ─▶ range_reader ─▶ options
"""
