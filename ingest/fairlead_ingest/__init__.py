"""Ingest: from topics to tables, each message one row, exactly once.

    messaging ─plan─→ source ─fetch─→ rows ─→ sink ─write─→ files
                        │                       └─commit─→ table: files + (application, batch) + positions
                        └─ offsets, data loss policy: what may be read, what is missing, and where that is recorded
    table's log ─→ metrics, events on the system topic

Spark drives: it asks the source how far it may read, writes that into its checkpoint, runs the tasks, and hands the
sink one batch to commit. The table's own log records the positions reached. So a batch that is tried twice is committed
once, and a lost checkpoint can be rebuilt from the table.

``source``, ``rows``, ``table``, ``pipeline`` and ``dead_letters`` decide; ``io`` acts; ``app`` joins them; an import
contract keeps the order ``app > io > pipeline | dead_letters > table > source | rows``.
"""
