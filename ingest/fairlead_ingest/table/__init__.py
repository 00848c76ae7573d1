"""What is stored with each commit of a table, and what its own log says of it.

    commit       may this batch be appended: already in, refused, or appended with these transactions
                 which commits the current version is made of (a RESTORE takes some back)
    commit_info  what we leave in each commit, typed; how old messages were when their row became visible
    store_path   a place in an object store; a table, its side tables and the checkpoint never overlap
    catalog      where an Iceberg table is known by name

    commit ─▶ commit_info ─▶ source.offsets, source.gaps

Formats (Delta, Iceberg) are in ``io.table``; they store and read what is decided here.
"""
