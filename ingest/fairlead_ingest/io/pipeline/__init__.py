"""One pipeline as a Spark query.

supervisor        keeps one pipeline going: starts, starts again, searches, stops
job               the query: prepared, started, observed, stopped after its batch
checkpoint_folder where a query has its checkpoint on this machine, filled from a copy in a store
query             what the query is made of: options, columns, the user's transforms
commit_watcher    reports what was committed: metrics, log, events, positions
lag_watcher       how far the table is behind its topics
failing_messages  the search for the message that fails a batch, by trying parts of it
backfill          a time range read again into a table
preflight         mistakes that can be found before Spark is started
plugins           a user's own transforms, found by name
session           the Spark session of a job, of a master or (``connect``) on a Connect server
executor_probe    do tasks have what they need where they run; before the first batch
executor_watcher  more executors came than the query counts on
spark_away        Spark itself is gone, and only waiting helps
spark_errors      codes for what Spark, tables and disks raise
round_robin       many names and little time

supervisor ─▶ job ─▶ query, commit_watcher, lag_watcher, failing_messages        backfill, preflight ─▶ query
"""
