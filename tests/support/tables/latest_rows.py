"""Rows for tests of latest tables, and the expected latest table: a dict, computed in plain Python."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fairlead_ingest.io.latest import latest_table
from fairlead_ingest.io.table import delta, tables
from fairlead_ingest.latest.definition import BUCKET, DELETED, LatestDefinition
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.table.store_path import Place

START = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("node", pa.string()),
        ("source", pa.string()),
        ("enqueued_at", TIMESTAMP),
        ("properties", pa.string()),
        ("value", pa.int64()),
        ("op", pa.string()),
        ("_topic", pa.string()),
        ("_id", pa.string()),
        ("_published_at", TIMESTAMP),
        ("_ingested_at", TIMESTAMP),
        ("_batch", pa.int64()),
        ("_date", pa.date32()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One message. ``number`` is its position in the order of arrival; ``enqueued`` seconds on the device's clock."""

    node: str | None = "n"
    source: str | None = None
    number: int = 0
    enqueued: int | None = None
    value: int = 0
    op: str | None = None
    properties: str | None = None
    topic: str = "plant/telemetry"

    @property
    def id(self) -> str:
        return f"{self.number:040x}"

    def plain(self) -> dict[str, Any]:
        """This message as a row of ``SCHEMA``."""
        published = START + datetime.timedelta(seconds=self.number)
        enqueued = None if self.enqueued is None else START + datetime.timedelta(seconds=self.enqueued)
        return {
            "node": self.node, "source": self.source, "enqueued_at": enqueued, "properties": self.properties,
            "value": self.value, "op": self.op, "_topic": self.topic, "_id": self.id, "_published_at": published,
            "_ingested_at": published, "_batch": 0, "_date": published.date(),
        }  # fmt: skip


def append(table: Place, rows: Sequence[Row], schema: pa.Schema = SCHEMA, **more: Any) -> None:
    """One commit; ``more``: further columns of all these rows."""
    delta.ensure(table, schema)
    writing = delta.writing(table)
    if rows:
        writing.add(pa.Table.from_pylist([{**row.plain(), **more} for row in rows], schema=schema))
    delta.append(table, writing.close(), tables.UNNUMBERED)


def model(rows: Iterable[Row], definition: LatestDefinition) -> dict[tuple[Any, ...], tuple[str, int, bool]]:
    """The expected content by key: id, value and whether it is deleted."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(getattr(row, name) for name in definition.key)
        if key not in found or _order(found[key], definition) < _order(row, definition):
            found[key] = row
    wanted = definition.delete_when.get("op", ())
    return {key: (row.id, row.value, row.op in wanted) for key, row in found.items()}


def _order(row: Row, definition: LatestDefinition) -> tuple[Any, ...]:
    own = [row.number, row.topic]
    if "value" in definition.order_by:
        own = [row.value, *own]
    if "enqueued_at" in definition.order_by:
        capped = None if row.enqueued is None else min(row.enqueued, row.number)
        own = [capped is not None, capped or 0, *own]
    return tuple(own)


def content(table: Place, definition: LatestDefinition) -> dict[tuple[Any, ...], tuple[str, int, bool]]:
    """The content of the latest table, read without our code; fails if a key is duplicated or in a wrong bucket."""
    state = latest_table.open_state(table)
    assert state is not None
    rows = state.opened.to_pyarrow_table().to_pylist()
    found = {tuple(row[name] for name in definition.key): (row["_id"], row["value"], row[DELETED]) for row in rows}
    assert len(found) == len(rows), "a key twice"
    mark = state.mark
    assert mark is not None
    assert (mark.keys, mark.deleted) == (len(rows), sum(row[DELETED] for row in rows)), mark
    assert all(row[BUCKET] < mark.buckets for row in rows)
    return found
