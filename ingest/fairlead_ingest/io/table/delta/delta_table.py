"""A Delta table: opening it, creating it and adding columns, its files and rows as the log describes them, vacuum.

A table in a folder is opened anew on each call. A table in a store stays open and is brought up to date instead.
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


BOUNDED: Final = "delta.dataSkippingStatsColumns"
# A job commits every second, and opening a table lists its log: 100,000 entries cost 100 ms, four times a batch.
CONFIGURATION = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 6 hours",
    "delta.enableExpiredLogCleanup": "true",
    # Of which columns the log has bounds, for every file. Without this delta-rs takes a column without bounds for one
    # that no file has a value of: a condition on it, in DuckDB say, finds nothing.
    BOUNDED: "_id,_published_at,node",
}
STORE_CHECKPOINT_COMMITS: Final = 20
"""A checkpoint costs some sixty requests; without one, opening the table asks once for each commit."""
STORE_CONFIGURATION: Final = {**CONFIGURATION, "delta.checkpointInterval": str(STORE_CHECKPOINT_COMMITS)}
"""In a store each commit since the checkpoint is a request of its own for each program that opens the table."""


def ensure(table: Place, schema: pa.Schema) -> None:
    """Make ``table`` if it is not there; let it grow by columns it lacks. Raises ``Stop`` where types clash."""
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
    missing = table_format.missing_columns(table, existing.schema(), schema)
    if list(existing.metadata().partition_columns) != list(PARTITION_COLUMNS):
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: not partitioned by {', '.join(PARTITION_COLUMNS)}")
    if missing:
        with explained(table):
            existing.alter.add_columns(missing)
    if BOUNDED not in existing.metadata().configuration:
        with explained(table):
            existing.alter.set_table_properties({BOUNDED: CONFIGURATION[BOUNDED]})


def size(table: Place) -> Size | None:
    """What the log says is in the table, None where there is none."""
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
    """By topic, the highest id that the statistics of its files say."""
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
    """The rows of the newest version, None where there is no table."""
    found = open_table(table)
    if found is None:
        return None
    if not found.file_uris():
        # A dataset of no files has no schema of its own.
        return ds.dataset(pa.schema(found.schema().to_arrow()).empty_table())
    return rows(table, found)


def vacuum(table: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
    """Delete files no version inside the retention needs, those of killed tasks included; their paths."""
    found = open_table(table)
    if found is None:
        return []
    with explained(table):
        return found.vacuum(
            retention_hours=retention_hours, dry_run=dry_run, enforce_retention_duration=False, full=True
        )
