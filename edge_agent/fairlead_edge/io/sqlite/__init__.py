"""SQLite files: written by one thread, checked when they are opened, salvaged when the disk damaged them.

writer ──▶ disk_space, schema_pages
salvage ──▶ wal, schema_pages
"""
