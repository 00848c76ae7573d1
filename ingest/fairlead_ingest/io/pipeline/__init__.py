"""One pipeline as a Spark query.

supervisor        keeps one pipeline going: starts, starts again, searches, stops
job               the query: prepared, started, observed, stopped after its batch
checkpoint_folder where a query has its checkpoint on this machine, filled from a copy in a store
query             what the query is made of: options, columns, the user's transforms
commit_watcher    reports what was committed: metrics, log, events, positions
lag_watcher       how far the table is behind its topics
size_watcher      how many files the table lies in, and its open dead letters
failing_messages  the search for the message that fails a batch, by trying parts of it
backfill          a time range read again into a table
preflight         mistakes that can be found before Spark is started
plugins           a user's own transforms, found by name
round_robin       many names and little time

supervisor ─▶ job ─▶ query, the three watchers, failing_messages        backfill, preflight ─▶ query
"""
