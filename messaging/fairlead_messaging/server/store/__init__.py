"""The store: ordered keys and values, written in atomic batches and read from snapshots.

    ordered_kv  the port: batches, snapshots, and what every store promises; the suite in tests/conformance checks it
    memory_kv   the implementation in memory, for tests, simulations and ``store = "memory"``
    layer       what one batch changes, over a store that does not have it yet           ┐ for stores of wide rows
    buckets     which partition a key goes into, and a batch as changes of single ones   ┘ (Cassandra)

The stores that do I/O (RocksDB, SQLite, Cassandra) are in ``server.io.stores``.
"""
