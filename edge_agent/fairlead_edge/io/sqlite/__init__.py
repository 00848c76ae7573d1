"""SQLite files: written by one thread, checked when they are opened, and salvaged if they are damaged.

writer ──▶ disk_space, schema_pages
salvage ──▶ wal, schema_pages
"""
