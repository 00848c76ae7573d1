"""One pipeline as a Spark query.

supervisor        keeps one pipeline running: starts, restarts, searches for failing messages, stops
job               the query: prepares, starts and observes it, and stops it after its batch
checkpoint_folder the query's checkpoint on this machine, restored from a copy in a store if necessary
query             the parts of a query: options, columns, the user's transforms
watchers          report commits, the lag behind the topics, the table's files and open dead letters
failing_messages  searches for the message that makes a batch fail, by trying parts of it
backfill          reads a time range again into a table
preflight         checks that need no Spark

supervisor ─▶ job ─▶ query, watchers, failing_messages        backfill, preflight ─▶ query
"""
