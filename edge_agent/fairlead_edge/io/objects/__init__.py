"""The objects on disk.

``sqlite_metastore`` over ``schema``; ``salvage`` for a damaged file; ``routes_copy`` for a disk that lost all.
"""
