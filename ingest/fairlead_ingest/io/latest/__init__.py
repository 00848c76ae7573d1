"""Keeps ``<table>_latest`` up to date: reads new rows from the rows table's log, folds them in, and commits.

refresh      open → decide → fold → commit, repeated if another writer was first; the latest table's status
fold         computes the newest rows of the buckets that change
keeper       a thread of the job that refreshes after each commit of rows
row_files    rows and log entries of the rows table, and the latest table's own files
latest_table creates, opens, commits to and vacuums the latest table
"""
