"""A Delta table: opens and creates it, adds columns, lists files and reads rows as the log describes them, vacuums.

A table in a folder is opened at each call. A table in a store stays open and is updated instead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store, store_filesystem, table_format
from fairlead_ingest.io.table.files import PARTITION_COLUMNS
from fairlead_ingest.io.table.table_format import Size
from fairlead_ingest.table.store_path import Place, StorePath


class _OpenTables(threading.local):
    """Open tables in stores: opening one takes a dozen requests or more, updating it two or three.

    Each thread has its own, so that no other thread updates a table between decision and commit. A table is opened
    again if its options changed, for example after a new secret, because an open one keeps its first credentials.
    """

    def __init__(self) -> None:
        self.tables: dict[StorePath, tuple[dict[str, str], DeltaTable]] = {}


_kept = _OpenTables()


@object_store.with_new_credentials
def open_table(table: Place) -> DeltaTable | None:
    """The newest version, None if there is no table. Raises ``Wait``, ``Stop`` if the store cannot be read."""
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
    """The rows of the open version."""
    if isinstance(table, Path):
        # Read with pyarrow's file system instead of delta-rs'; see ``store_filesystem``.
        folder = pa_fs.SubTreeFileSystem(str(table.absolute()), pa_fs.LocalFileSystem())
        return found.to_pyarrow_dataset(filesystem=folder)
    return found.to_pyarrow_dataset(filesystem=store_filesystem.below(table))


def when_decided(table: Place) -> DeltaTable:
    """The table as it was when the commit was decided, if it is still open, so that later commits collide."""
    kept = _kept.tables.get(table) if isinstance(table, StorePath) else None
    found = open_table(table) if kept is None else kept[1]
    if found is None:
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: there is no table here")
    return found


def forget(table: StorePath) -> None:
    """Close the table, so that the next call opens it again."""
    _kept.tables.pop(table, None)


def options(table: Place) -> dict[str, str] | None:
    """The storage options for delta-rs, None for a folder. Raises ``Stop``."""
    return None if isinstance(table, Path) else object_store.storage_options(table.storage)


@contextmanager
def explained(table: Place) -> Iterator[None]:
    """Explain errors of the store; errors of a folder pass unchanged."""
    try:
        yield
    except (DeltaError, OSError) as error:
        if isinstance(table, Path):
            raise
        forget(table)
        raise object_store.explain(table, error) from error


BOUNDED: Final = "delta.dataSkippingStatsColumns"
# Keep the log short: a job commits every second, and opening a table lists its log four times a batch, which takes
# 100 ms with 100,000 entries.
CONFIGURATION = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 6 hours",
    "delta.enableExpiredLogCleanup": "true",
    # The columns for which the log has bounds of every file. Without this, delta-rs takes a column without bounds for
    # one without values, and a filter on it (in DuckDB, for example) finds nothing.
    BOUNDED: "_id,_published_at,node",
}
STORE_CHECKPOINT_COMMITS: Final = 20
"""A checkpoint takes about sixty requests, but saves one request for each commit when the table is opened."""
STORE_CONFIGURATION: Final = {**CONFIGURATION, "delta.checkpointInterval": str(STORE_CHECKPOINT_COMMITS)}
"""In a store, every program that opens the table needs one request for each commit since the checkpoint."""


def ensure(table: Place, schema: pa.Schema) -> None:
    """Create ``table`` or add missing columns. Raises ``Stop`` if types conflict."""
    existing = open_table(table)
    if existing is None:
        if isinstance(table, Path):
            table_format.refuse_other(table, "delta")
            table.parent.mkdir(parents=True, exist_ok=True)
        with explained(table):
            DeltaTable.create(
                str(table),
                Schema.from_arrow(schema),
                mode="ignore",
                partition_by=list(PARTITION_COLUMNS),
                configuration=CONFIGURATION if isinstance(table, Path) else STORE_CONFIGURATION,
                storage_options=options(table),
            )
        return
    if list(existing.metadata().partition_columns) != list(PARTITION_COLUMNS):
        raise errors.not_ours(table, "a Delta")
    missing = table_format.missing_columns(table, existing.schema(), schema)
    if missing:
        with explained(table):
            existing.alter.add_columns(missing)
    if BOUNDED not in existing.metadata().configuration:
        with explained(table):
            existing.alter.set_table_properties({BOUNDED: CONFIGURATION[BOUNDED]})


def size(table: Place) -> Size | None:
    """The size of the table according to the log, None if there is no table."""
    found = open_table(table)
    if found is None:
        return None
    actions = pa.table(found.get_add_actions(flatten=True))
    return Size(
        version=found.version(),
        files=actions.num_rows,
        rows=pc.sum(actions["num_records"]).as_py() or 0,
        bytes=pc.sum(actions["size_bytes"]).as_py() or 0,
    )


def files(table: Place) -> list[tuple[str, str]]:
    """(path, topic) of every file, oldest first."""
    found = open_table(table)
    if found is None:
        return []
    actions = pa.table(found.get_add_actions(flatten=True)).select(["path", "partition._topic"])
    # The log quotes the names it finds on disk.
    return [(unquote(path), topic) for path, topic in zip(*(column.to_pylist() for column in actions), strict=True)]


def highest_ids(table: Place) -> dict[str, str]:
    """By topic, the highest id in the statistics of its files."""
    found = open_table(table)
    actions = None if found is None else pa.table(found.get_add_actions(flatten=True))
    if actions is None or not {"max._id", "partition._topic"} <= set(actions.column_names):
        return {}
    highest = (
        actions.select(["max._id", "partition._topic"]).group_by("partition._topic").aggregate([("max._id", "max")])
    )
    topics, ids = (highest[name].to_pylist() for name in ("partition._topic", "max._id_max"))
    return {topic: last for topic, last in zip(topics, ids, strict=True) if last is not None}


def dataset(table: Place) -> ds.Dataset | None:
    """The rows of the newest version, None if there is no table."""
    found = open_table(table)
    if found is None:
        return None
    if not found.file_uris():
        # A dataset without files has no schema.
        return ds.dataset(pa.schema(found.schema().to_arrow()).empty_table())
    return rows(table, found)


def vacuum(table: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
    """Delete files that no version within the retention needs, also those of killed tasks; return their paths."""
    found = open_table(table)
    if found is None:
        return []
    with explained(table):
        return found.vacuum(
            retention_hours=retention_hours, dry_run=dry_run, enforce_retention_duration=False, full=True
        )
