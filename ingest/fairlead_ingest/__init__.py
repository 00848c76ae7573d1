"""Ingest: from topics to tables, each message one row, exactly once.

    messaging ─plan─→ source ─fetch─→ transforms ─→ sink ─write─→ files
                        │                             └─commit─→ table: files + (application, batch) + positions
                        └─ offsets, loss: what may be read, what is missing, and what is said about it
    table's log ─announcements─→ system topic

Spark drives: it asks the source how far reading may go, writes that into its checkpoint, runs the tasks, and hands the
sink one batch to commit. The table's own log carries the positions reached, so a batch that is tried twice is in once,
and a lost checkpoint is rebuilt from the table. Files at this level decide; ``io`` acts; ``app`` joins them.
"""
