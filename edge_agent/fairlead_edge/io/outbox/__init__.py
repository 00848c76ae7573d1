"""The outbox on disk, what fills it and what empties it.

    local_api ──▶ publisher ──▶ sqlite_outbox ──▶ upstream_pump ──▶ link
                                   │    └───────▶ broker ──▶ modules on this node
                                   └─ expiry_sweeper

``upstream`` puts these together.  Behind ``sqlite_outbox``: ``jobs`` write, ``queries`` read, ``schema`` and
``upgrade`` make the tables; ``audit``, ``damage``, ``salvage`` and ``totals_file`` are for disks that fail.
"""
