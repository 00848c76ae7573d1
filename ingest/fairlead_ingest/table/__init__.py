"""What is stored with each commit of a table, and what its own log says of it.

    commit       may this batch be appended: already in, refused, or appended with these transactions
    commit_info  what we leave in each commit, typed
    history      which commits the current version is made of (a RESTORE takes some back)
    freshness    how old messages were when their row became visible, as counts in buckets
    folders      a table, its side tables and the checkpoint: none may lie in the way of another
    report       one HTML page about tables

    history ─▶ commit ─▶ commit_info ─▶ source.offsets, source.gaps

Formats (Delta, Iceberg) are in ``io.table``; they store and read what is decided here.
"""
