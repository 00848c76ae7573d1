"""Iceberg tables through pyiceberg: what they are made of lies in a folder or a store, what is current in a catalog.

format      the table format behind the protocol of all formats
iceberg_table  catalogs and tables, open; the files of a version, as manifests list them
definition  columns, partitions, properties: made, grown
account     batch, positions, counts and sums: what our commits say of themselves
versions    one new version of a table: its manifests, its summary, what the catalog is asked to change
contents    the rows of a version
deleted     rows that another engine has marked as deleted are left out
columns     Arrow's columns and Iceberg's; what a file of a task is in a manifest
compaction  files joined or sorted, beside all who write
tidying     versions that have expired, files that no version needs
catalogs    a catalog opened as the settings say: SQL or REST
catalog_failures  what a catalog answers, in a sentence with a code
secret_file  the one line of a file with a secret
file_io     how pyiceberg reads and writes: with our credentials, durably, and nothing twice

    format, compaction ─▶ iceberg_table ─▶ catalogs ─▶ file_io
        ├── account, tidying ─▶ versions ─▶ iceberg_table
        ├── definition ─▶ columns
        └── contents ─▶ deleted ─▶ iceberg_table
"""
