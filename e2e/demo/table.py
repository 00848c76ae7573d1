"""Reads the Delta table as other programs do: with deltalake and Arrow, without ingest's code."""

from __future__ import annotations

import datetime
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from e2e.demo.count import Row

COLUMNS = ("id", "node", "priority", "enqueued_at", "_published_at", "_ingested_at")


def seconds(value: datetime.datetime | str) -> float:
    """Unix seconds of a timestamp, or of its RFC 3339 text; a time without a zone is UTC."""
    moment = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def read_rows(table: Path) -> list[Row]:
    """Every row of the newest version; none if the table does not exist yet."""
    try:
        columns = DeltaTable(str(table)).to_pyarrow_table(columns=list(COLUMNS)).to_pydict()
    except TableNotFoundError:
        return []
    return [
        Row(
            id=id, node=node, priority=priority, enqueued=seconds(enqueued), published=seconds(published),
            ingested=seconds(ingested),
        )
        for id, node, priority, enqueued, published, ingested in zip(
            *(columns[name] for name in COLUMNS), strict=True
        )
    ]  # fmt: skip
