"""The protocol of table formats, and what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import Field, Schema

from fairlead_ingest import errors
from fairlead_ingest.io.table.files import PartitionedFiles, WrittenFile
from fairlead_ingest.rows import ddl
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table.commit import Append, TableState
from fairlead_ingest.table.commit_info import LogEntry
from fairlead_ingest.table.store_path import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A table's newest version and its size."""

    version: int
    files: int
    rows: int
    bytes: int


MARKS = {"delta": "_delta_log", "iceberg": "metadata"}
"""By format, a folder that only its tables have."""


class TableFormat(Protocol):
    """One table format. If there is no ``table``, functions that read return None, 0 or an empty value."""

    def ensure(self, table: Place, schema: pa.Schema) -> None:
        """Create the table or add missing columns. Raises ``Stop`` if types conflict or it has another format."""

    def writing(self, table: Place) -> PartitionedFiles:
        """A writer for the files of one task, which readers do not see before they are appended."""

    def state(self, table: Place, application: str) -> TableState:
        """What a writer must know about the table."""

    def append(self, table: Place, files: Sequence[WrittenFile], decided: Append) -> None:
        """Commit files, transactions and metadata atomically. Raises ``Collided``, ``Stop``, ``Wait``."""

    def reached(self, table: Place) -> Offsets:
        """The table's position in each topic."""

    def highest_ids(self, table: Place) -> dict[str, str]:
        """By topic, the highest id of its rows from statistics; topics without statistics are absent.

        The rows may go further than ``reached``, since a backfill moves no positions.
        """

    def last_entries(self, table: Place, limit: int) -> list[LogEntry]:
        """The newest commits, newest first."""

    def version(self, table: Place) -> int | None:
        """The number of the newest version; cheaper than ``size``."""

    def size(self, table: Place) -> Size | None:
        """The size of the table, from its log alone."""

    def files(self, table: Place) -> list[tuple[str, str]]:
        """(path below the table, topic) of every file, oldest first."""

    def dataset(self, table: Place) -> ds.Dataset | None:
        """The committed rows."""

    def vacuum(self, table: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
        """Delete old files that no version needs; return their paths."""


def refuse_other(table: Path, own: str) -> None:
    """Raise ``Stop`` if the folder has a table of another format; with two logs, each would list half of the rows."""
    for name, mark in MARKS.items():
        if name != own and (table / mark).is_dir():
            raise errors.Stop(errors.TABLE_UNFIT, f'{table}: this is a table of format "{name}"; the job needs "{own}"')


def reached_by_rows(rows: ds.Dataset, topics: Sequence[str] | None = None) -> Offsets:
    """The highest id in each topic; continuing after it repeats no row.

    ``topics`` None means all topics. Empty if the table does not have our columns.
    """
    if not {"_topic", "_id"} <= set(rows.schema.names):
        return Offsets()
    condition = None if topics is None else pc.field("_topic").isin(list(topics))
    highest = rows.to_table(columns=["_topic", "_id"], filter=condition).group_by("_topic").aggregate([("_id", "max")])
    names, ids = highest["_topic"], pc.cast(highest["_id_max"], pa.string())
    return Offsets(
        topics={name: TopicOffset.at(0, last) for name, last in zip(names.to_pylist(), ids.to_pylist(), strict=True)}
    )


def missing_columns(table: Place, held: Schema, wanted: pa.Schema) -> list[Field]:
    """The columns of ``wanted`` that ``held`` lacks. Raises ``Stop`` if a type would change."""
    there = {field.name: field for field in held.fields}
    missing = []
    for field in Schema.from_arrow(wanted).fields:
        if field.name not in there:
            missing.append(field)
        elif there[field.name].type != field.type:
            raise another_type(table, field.name, sql_type(there[field.name]), sql_type(field))
    return missing


def another_type(table: Place, column: str, held: str, wanted: str) -> errors.Stop:
    """The error for a column whose type differs; both types are SQL types."""
    return errors.Stop(
        errors.TABLE_UNFIT,
        f"{table}: column {column} is {held} in the table and {wanted} in the job; a column's type cannot change: keep"
        f" {held}, or give the job a new table and checkpoint",
    )


def sql_type(field: Field) -> str:
    """The type of a Delta column as written in a contract."""
    return ddl.of_arrow(pa.schema(Schema([field]).to_arrow()).field(0).type)
