"""Where everything is kept: ordered keys and values, written in atomic batches, read from snapshots.

    batch       writes that become durable together or not at all
    ordered_kv  the port: what every store promises, and the suite in tests/conformance checks
    memory_kv   the twin in memory, for tests, simulations and ``store = "memory"``

The stores on disk (RocksDB, SQLite) act, so they are in ``server.io.stores``.
"""
