"""Delta tables, open: in a folder looked at anew each time, in a store kept and brought up to date."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store, store_filesystem
from fairlead_ingest.table.store_path import Place, StorePath


class _OpenTables(threading.local):
    """Tables in stores, open: opening one is a dozen requests and more, bringing it up to date is two or three.

    Of one thread each: who has looked and commits must not be moved on in between. A table is opened anew where the
    options are others, for a file has a new secret, say: an open one goes on with the credentials it began with.
    """

    def __init__(self) -> None:
        self.tables: dict[StorePath, tuple[dict[str, str], DeltaTable]] = {}


_kept = _OpenTables()


@object_store.with_new_credentials
def open_table(table: Place) -> DeltaTable | None:
    """The newest version; None where there is no table.  Raises ``Wait``, ``Stop`` where a store cannot be asked."""
    if isinstance(table, Path):
        try:
            return DeltaTable(str(table))
        except TableNotFoundError:
            return None
    asked = object_store.storage_options(table.storage)
    known, found = _kept.tables.get(table, ({}, None))
    try:
        if found is None or known != asked:
            found = DeltaTable(str(table), storage_options=asked)
            _kept.tables[table] = asked, found
        else:
            found.update_incremental()
    except TableNotFoundError:
        forget(table)
        return None
    except (DeltaError, OSError) as error:
        forget(table)
        raise object_store.explain(table, error) from error
    return found


def rows(table: Place, found: DeltaTable) -> ds.Dataset:
    """The rows of the version that is open."""
    if isinstance(table, Path):
        # By pyarrow itself, not through delta-rs' files: see ``store_filesystem``.
        folder = pa_fs.SubTreeFileSystem(str(table.absolute()), pa_fs.LocalFileSystem())
        return found.to_pyarrow_dataset(filesystem=folder)
    return found.to_pyarrow_dataset(filesystem=store_filesystem.below(table))


def when_decided(table: Place) -> DeltaTable:
    """As it was when the commit was decided, where that is known: what came since collides in the log."""
    kept = _kept.tables.get(table) if isinstance(table, StorePath) else None
    found = open_table(table) if kept is None else kept[1]
    if found is None:
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: there is no table here")
    return found


def forget(table: StorePath) -> None:
    """The next look opens it anew."""
    _kept.tables.pop(table, None)


def options(table: Place) -> dict[str, str] | None:
    """What delta-rs takes to reach it; a folder needs nothing.  Raises ``Stop``."""
    return None if isinstance(table, Path) else object_store.storage_options(table.storage)


@contextmanager
def explained(table: Place) -> Iterator[None]:
    """What a store answers is said in a sentence of ours."""
    try:
        yield
    except (DeltaError, OSError) as error:
        if isinstance(table, Path):
            raise
        forget(table)
        raise object_store.explain(table, error) from error
