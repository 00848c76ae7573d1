"""The outbox on disk, and what fills and empties it.

    local_api ──▶ publisher ──▶ sqlite_outbox ──▶ upstream_pump ──▶ link
                                   │    └───────▶ broker ──▶ modules on this node
                                   └─ upstream.ExpirySweeper

``upstream`` puts these together.  ``tables`` has the schema, the SQL statements, and what each job reads and writes;
``repair`` finds and repairs damage.  ``side_files`` are files beside the database that help after a failed disk or a
killed process.
"""
