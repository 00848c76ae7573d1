"""Implementations of the ordered key-value port on disk; each passes the suite in tests/conformance.

reopening_kv ─→ rocksdb_kv | sqlite_kv     opens the store again after a failure
     └─→ data_dir                          one process has the folder at a time
offline_store                              a stopped service's store, read; a backup, restored
"""
