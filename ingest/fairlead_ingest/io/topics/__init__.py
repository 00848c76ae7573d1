"""The Spark data source ``fairlead``: topics of the messaging service, read and written.

spark_source         the names Spark looks for; a stream's batches cut into tasks
batch_planner        what the next batch of a stream reads
range_reader         one offset range in a task: page by page, one page ahead; topics as a batch
retry                requests repeated while the service says "not now"
options              Spark's text options, typed and checked
topic_writer         a DataFrame, or each batch of a stream, into a topic, in one transaction

spark_source ─▶ batch_planner, topic_writer ─▶ range_reader ─▶ options
"""
