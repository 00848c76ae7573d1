"""Ingest: rows a second, memory, freshness, and what more executors give."""
