"""A catalog opened as the settings say, and its errors in sentences of ours.

sql          SQLite, PostgreSQL: each statement ends in time, passwords are read when a connection is made
rest         services with Iceberg's REST API: each request ends in time, tokens, OAuth2
secret_file  the one line of a file with a secret
failures     what a catalog answers, in a sentence with a code

    connect ─▶ sql, rest ─▶ secret_file        all ─▶ failures

pyiceberg would also take what it finds in ``~/.pyiceberg.yaml`` and ``PYICEBERG_…``; a job does what its own settings
say, wherever it runs, so those are not read.  How files are read and written is the job's own setting, too: neither a
catalog's answer nor a property of a table, which other writers may set, names another way.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog as Opened

from fairlead_ingest.io.table.iceberg.catalog_failures import FAILURES as FAILURES
from fairlead_ingest.io.table.iceberg.catalog_failures import explain as explain
from fairlead_ingest.io.table.iceberg.catalogs import rest, sql
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.store_path import Storage


def is_missing(catalog: Catalog) -> bool:
    """A file of SQLite that is not there. Connecting makes it, so only who makes a table connects then."""
    return catalog.type == "sql" and sql.is_missing(catalog.uri)


def connect(catalog: Catalog, storage: Storage) -> Opened:
    """Raises ``Stop``, ``Wait``."""
    try:
        return sql.connect(catalog, storage) if catalog.type == "sql" else rest.connect(catalog, storage)
    except FAILURES as error:
        raise explain(catalog, error) from error
