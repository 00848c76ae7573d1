"""SQLite files: written by one thread, checked when they are opened, salvaged when the disk damaged them.

writer ──▶ spare_room, schema_pages
salvage ──▶ wal, schema_pages
"""
