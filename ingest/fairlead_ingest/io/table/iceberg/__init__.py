"""Iceberg tables through pyiceberg: files are in a folder or a store, and a catalog knows the current version.

format      the table format, implementing the protocol of all formats
iceberg_table  open catalogs and tables; the files of a version from its manifests
definition  creates tables and adds columns; partitions and properties
account     records batch, positions and counts in our commits, and reads them
versions    makes a new version of a table: manifests, summary, the request to the catalog
contents    the rows of a version
deleted     leaves out rows that another engine has marked as deleted
columns     converts between Arrow's and Iceberg's columns; manifest entries for the files of tasks
compaction  joins or sorts files, concurrently with other writers
tidying     removes expired versions and files that no version needs
catalogs    opens a catalog from the settings: SQL or REST
catalog_failures  explains a catalog's answers with a code and a sentence
secret_file  reads a secret from a one-line file
file_io     how pyiceberg reads and writes: with our credentials, durably, with a cache

    format, compaction ─▶ iceberg_table ─▶ catalogs ─▶ file_io
        ├── account, tidying ─▶ versions ─▶ iceberg_table
        ├── definition ─▶ columns
        └── contents ─▶ deleted ─▶ iceberg_table
"""
