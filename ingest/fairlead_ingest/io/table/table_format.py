"""What a sink needs of a table, whatever it is made of, and what the formats have in common."""

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
    """A table's latest version and what is in it."""

    version: int
    files: int
    rows: int
    bytes: int


MARKS = {"delta": "_delta_log", "iceberg": "metadata"}
"""By format, a folder that its tables have and no others."""


class TableFormat(Protocol):
    """One table format. ``table`` is its folder; functions that read say ``None``, 0 or empty where there is none."""

    def ensure(self, table: Place, schema: pa.Schema) -> None:
        """Make it, or let it grow by columns it lacks. Raises ``Stop`` where types clash or it is of another format."""

    def writing(self, table: Place) -> PartitionedFiles:
        """Files of one task, which no reader sees before they are appended."""

    def state(self, table: Place, application: str) -> TableState:
        """What a writer has to know; nothing where there is no table."""

    def append(self, table: Place, files: Sequence[WrittenFile], decided: Append) -> None:
        """All of ``files``, the transactions and the metadata, or nothing. Raises ``Collided``, ``Stop``, ``Wait``."""

    def reached(self, table: Place) -> Offsets:
        """How far the table goes per topic."""

    def highest_ids(self, table: Place) -> dict[str, str]:
        """By topic, the highest id of its rows, as statistics of the log or its files say; a topic without is absent.

        A table may hold more than ``reached`` says: restored and filled again by a backfill, which moves no positions.
        """

    def last_entries(self, table: Place, limit: int) -> list[LogEntry]:
        """The newest commits, newest first."""

    def version(self, table: Place) -> int | None:
        """The newest commit all of whose files readers find; cheaper than ``size``."""

    def size(self, table: Place) -> Size | None:
        """What is in it, from its log alone."""

    def files(self, table: Place) -> list[tuple[str, str]]:
        """(path below the table, topic) of every file, oldest first."""

    def dataset(self, table: Place) -> ds.Dataset | None:
        """Its rows, exactly those committed."""

    def vacuum(self, table: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
        """Delete older files that no version needs; their paths."""


def refuse_other(table: Path, own: str) -> None:
    """Raises ``Stop`` where the folder holds a table of another format: two logs in one place would each tell half."""
    for name, mark in MARKS.items():
        if name != own and (table / mark).is_dir():
            raise errors.Stop(errors.TABLE_UNFIT, f'{table}: a table of format "{name}"; the job wants "{own}"')


def reached_by_rows(rows: ds.Dataset, topics: Sequence[str] | None = None) -> Offsets:
    """The highest id per topic: what was read beyond it held no good row, so going on there repeats none.

    ``topics`` None: all of them. Columns that are not ours say nothing.
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
    """What ``held`` has to grow by to take ``wanted``. Raises ``Stop`` where a type would change."""
    there = {field.name: field for field in held.fields}
    missing = []
    for field in Schema.from_arrow(wanted).fields:
        if field.name not in there:
            missing.append(field)
        elif there[field.name].type != field.type:
            raise another_type(table, field.name, sql_type(there[field.name]), sql_type(field))
    return missing


def another_type(table: Place, column: str, held: str, wanted: str) -> errors.Stop:
    """Why the table cannot take a column: both types in words of SQL."""
    return errors.Stop(
        errors.TABLE_UNFIT,
        f"{table}: column {column} is {held} in the table and {wanted} in the job; a column's type never changes: keep"
        f" {held} for it, or give the job a new table and checkpoint",
    )


def sql_type(field: Field) -> str:
    """The type of a Delta column, as a contract writes it."""
    return ddl.of_arrow(pa.schema(Schema([field]).to_arrow()).field(0).type)
