"""Keeps ``<table>_latest``: reads what the rows' log says is new, folds it in, commits.

refresh      look → decide → fold → commit, again where another was first
keeper       a thread of the job that refreshes after the rows' commits
log_entries   entries of a Delta log, of a folder or a store
row_files    rows out of the files of the rows table
bucket_files the latest table's own files
latest_table made, looked at, committed to, vacuumed
"""
