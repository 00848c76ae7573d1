"""The Spark data source ``fairlead``: topics of the messaging service, read and written.

spark_source         the data source registered with Spark; splits a stream's batches into tasks
batch_planner        plans the next batch of a stream
range_reader         reads offset ranges in a task with one page of read-ahead; reads topics as a batch
retry                repeats requests while the service is busy
options              parses and checks Spark's text options
topic_writer         writes a DataFrame, or each batch of a stream, into a topic in one transaction

spark_source ─▶ batch_planner, topic_writer ─▶ range_reader ─▶ options
"""
