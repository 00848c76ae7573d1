"""One pipeline as a Spark query.

session           the Spark session of a job
job               the query: built, started, watched, stopped after its batch
preflight         mistakes that can be found before Spark is started
plugins           a user's own transforms, found by name
failing_messages  the search for the message that fails a batch, by trying parts of it
backfill          a stretch of time read again into a table

backfill, preflight ─▶ job ─▶ failing_messages ─▶ session
"""
