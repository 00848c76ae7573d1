"""Iceberg tables through pyiceberg: what they are made of lies in a folder or a store, what is current in a catalog.

format      the table format behind the protocol of all formats
versions    one new version of a table: its manifests, its summary, what the catalog is asked to change
compaction  small files of a partition into large ones, beside a running job
tidying     versions that have expired, files that no version needs
listing     the files of a version, as manifests tell them
columns     Arrow's columns and Iceberg's; what a file of a task is in a manifest
catalogs    a catalog opened as the settings say, and its errors in sentences; a room of its own
file_io     how pyiceberg reads and writes: with our credentials, durably, and nothing twice

    format ─▶ compaction ─▶ versions ─▶ listing ─▶ columns        format ─▶ tidying ─▶ versions
    format ─▶ catalogs ─▶ file_io
"""
