"""What a sink needs of a table, whatever it is made of; ``of`` gives the module that knows one kind.

    delta     a Delta table through delta-rs: any number of files in or out in one commit, for readers that know Delta
    parquet   a folder of Parquet files with a commit log of our own: for readers that know nothing but files

Three tables belong together and are of one kind: the rows, ``<table>_dead_letters`` and ``<table>_gaps``. Both
kinds obey one conformance suite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import Field, Schema

from fairlead_ingest import errors
from fairlead_ingest.commit import Append, TableState
from fairlead_ingest.envelope import TIMESTAMP
from fairlead_ingest.io.files import PartitionedFiles, WrittenFile
from fairlead_ingest.offsets import Offsets, Position

DEAD_LETTERS = "_dead_letters"
GAPS = "_gaps"
# Where plain Parquet keeps its log.
COMMITS = "_commits"
# A commit that belongs to no batch of a stream (a backfill's): positions stay as they are.
UNNUMBERED = Append(transactions={}, metadata={})
DEAD_LETTERS_SCHEMA = pa.schema(
    [
        ("error", pa.string()),
        ("payload", pa.binary()),
        ("_topic", pa.string()),
        ("_id", pa.string()),
        ("_published_at", TIMESTAMP),
        ("_ingested_at", TIMESTAMP),
        ("_batch", pa.int64()),
        ("_date", pa.date32()),
    ]
)
GAPS_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("from_generation", pa.int64()),
        ("from_position", pa.string()),
        ("to_generation", pa.int64()),
        ("to_position", pa.string()),
        ("rows", pa.int64()),
        ("_topic", pa.string()),
        ("_ingested_at", TIMESTAMP),
        ("_batch", pa.int64()),
        ("_date", pa.date32()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A table's latest version and what is in it."""

    version: int
    files: int
    rows: int
    bytes: int


class Kind(Protocol):
    """One kind of table. ``table`` is its folder; functions that read say ``None``, 0 or empty where there is none."""

    def ensure(self, table: Path, schema: pa.Schema) -> None:
        """Make it, or let it grow by columns it lacks. Raises ``Stop`` where types clash or it is of another kind."""

    def writing(self, table: Path) -> PartitionedFiles:
        """Files of one task, seen by nobody before they are appended."""

    def state(self, table: Path, application: str) -> TableState:
        """What a writer has to know; the table must be there."""

    def append(self, table: Path, files: Sequence[WrittenFile], decided: Append) -> None:
        """All of ``files``, the transactions and the metadata, or nothing. Raises ``Collided``, ``Stop``, ``Wait``."""

    def reached(self, table: Path) -> Offsets:
        """How far the table goes per topic."""

    def last_entries(self, table: Path, limit: int) -> list[Mapping[str, Any]]:
        """The newest commits, newest first: ``timestamp`` in ms and what was left in their metadata."""

    def version(self, table: Path) -> int | None:
        """The newest commit all of whose files readers find; cheaper than ``size``."""

    def size(self, table: Path) -> Size | None:
        """What is in it, from its log alone."""

    def files(self, table: Path) -> list[tuple[str, str]]:
        """(path below the table, topic) of every file, oldest first."""

    def dataset(self, table: Path) -> ds.Dataset | None:
        """Its rows, exactly those committed."""

    def vacuum(self, table: Path, *, retention_hours: int, dry_run: bool) -> list[str]:
        """Delete older files that no version needs; their paths."""


def of(sink: str) -> Kind:
    """The kind of table the setting ``sink`` names."""
    # Late, because both kinds know this module.
    from fairlead_ingest.io import delta, parquet

    return {"delta": delta, "parquet": parquet}[sink]


def beside(table: Path, suffix: str) -> Path:
    """The path of a table's companion."""
    return table.with_name(table.name + suffix)


def count(kind: Kind, table: Path) -> int:
    """Rows in the table, 0 where there is none."""
    found = kind.size(table)
    return 0 if found is None else found.rows


def existing(kind: Kind, table: Path) -> ds.Dataset:
    """The rows of a table. Raises ``Stop`` where there is none."""
    found = kind.dataset(table)
    if found is None:
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: there is no table here")
    return found


def identities(kind: Kind, table: Path, from_ms: int | None, until_ms: int | None) -> pa.Table:
    """(topic, id) of what is there, published from (inclusive) until (exclusive) these milliseconds since 1970."""
    condition = pc.scalar(True)
    for bound, compare in ((from_ms, pc.greater_equal), (until_ms, pc.less)):
        if bound is not None:
            condition = condition & compare(pc.field("_published_at"), pa.scalar(bound * 1000, TIMESTAMP))
    return existing(kind, table).to_table(columns=["_topic", "_id"], filter=condition)


def reached_by_rows(rows: ds.Dataset) -> Offsets:
    """The highest id per topic: what was read beyond it held no good row, so going on there repeats none."""
    highest = rows.to_table(columns=["_topic", "_id"]).group_by("_topic").aggregate([("_id", "max")])
    names, ids = highest["_topic"], pc.cast(highest["_id_max"], pa.string())
    return Offsets(
        topics={name: Position.at(0, last) for name, last in zip(names.to_pylist(), ids.to_pylist(), strict=True)}
    )


def missing_columns(table: Path, held: Schema, wanted: pa.Schema) -> list[Field]:
    """What ``held`` has to grow by to take ``wanted``. Raises ``Stop`` where a type would change."""
    there = {field.name: field for field in held.fields}
    missing = []
    for field in Schema.from_arrow(wanted).fields:
        if field.name not in there:
            missing.append(field)
        elif there[field.name].type != field.type:
            raise errors.Stop(
                errors.TABLE_UNFIT,
                f"{table}: column {field.name} is {there[field.name].type} in the table and {field.type} in the job;"
                " columns are only ever added",
            )
    return missing
