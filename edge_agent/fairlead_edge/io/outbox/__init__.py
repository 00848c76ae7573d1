"""The outbox on disk, what fills it and what empties it.

    local_api ──▶ publisher ──▶ sqlite_outbox ──▶ upstream_pump ──▶ link
                                   │    └───────▶ broker ──▶ modules on this node
                                   └─ upstream.ExpirySweeper

``upstream`` puts these together.  ``tables`` is the inside of the file: its schema, its statements, and what each job
reads and writes; ``repair`` finds damage to it and makes it sound again.  ``side_files`` are files beside it, for disks
and processes that fail.
"""
