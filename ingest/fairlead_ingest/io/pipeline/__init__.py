"""One pipeline as a Spark query.

supervisor        keeps one pipeline going: starts, starts again, searches, stops
job               the query: prepared, started, observed, stopped after its batch
checkpoint_folder where a query has its checkpoint on this machine, filled from a copy in a store
query             what the query is made of: options, columns, the user's transforms, found by name
watchers          report what was committed, how far the table is behind its topics, its files and open dead letters
failing_messages  the search for the message that fails a batch, by trying parts of it
backfill          a time range read again into a table
preflight         mistakes that can be found before Spark is started

supervisor ─▶ job ─▶ query, watchers, failing_messages        backfill, preflight ─▶ query
"""
