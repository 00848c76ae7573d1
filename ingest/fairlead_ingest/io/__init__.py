"""Everything of ingest that touches Spark, the service, the disk, the clock or a socket.

letters          dead letters: listed, exported, repaired
pipeline         one pipeline as a Spark query: built, started, watched, stopped; backfill
spark            the Spark that a job runs on: its session, its executors, its failures
topics           the Spark data source ``fairlead``: topics read as a stream or a batch, and written
sink             the Spark sinks ``fairlead_delta`` and ``fairlead_iceberg``
service_tls      the files for mutual TLS with the service
worker_memory    keeps Spark's Python workers from collecting imported modules as garbage after every task
checkpoint       the files of Spark and of our tasks in a checkpoint
table            table formats behind one protocol: Delta and Iceberg
http_server      health, metrics and receipts over HTTP
contracts        contract files, and what they are tried on: messages of a topic and the existing table
status, metrics, event_publisher, table_report: the state of a job, for people and programs

letters ─▶ pipeline ─▶ spark ─▶ topics, sink, status, event_publisher ─▶ checkpoint, metrics ─▶ table
"""
