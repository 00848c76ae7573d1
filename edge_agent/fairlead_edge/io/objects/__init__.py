"""The objects on disk.

    sqlite_metastore ──▶ objects_table ──▶ schema, statements

``salvage`` is for a damaged file, ``routes_copy`` for a disk that lost all.
"""
