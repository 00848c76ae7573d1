"""Decisions about commits to a table, from what its own log records.

    commit       whether a batch is appended, already committed or refused; which commits the current version is based
                 on, as a RESTORE reverts some
    commit_info  what each of our commits records; how old messages were when their row became visible
    store_path   a path in an object store; checks that the folders of a job do not overlap
    catalog      the catalog of Iceberg tables, and their names in it

    commit ─▶ commit_info ─▶ source.offsets, source.gaps

The formats (Delta, Iceberg) in ``io.table`` store and read what is decided here.
"""
