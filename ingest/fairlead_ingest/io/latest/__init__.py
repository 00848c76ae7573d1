"""Keeps ``<table>_latest``: reads what the rows' log says is new, folds it in, commits.

refresh      look → decide → fold → commit, again where another was first; how the table stands beside its rows
fold         the newest rows of the buckets that change
keeper       a thread of the job that refreshes after the rows' commits
row_files    rows and log entries of the rows table, and the latest table's own files
latest_table made, looked at, committed to, vacuumed
"""
