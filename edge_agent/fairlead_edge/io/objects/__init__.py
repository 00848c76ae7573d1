"""The objects on disk.

    sqlite_metastore ──▶ objects_table ──▶ schema
      └─ sqlite_statuses ──▶ statuses_table ──▶ schema

``schema`` has the tables, the statements and the checksums of rows.
"""
