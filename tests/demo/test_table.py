"""Rows are read from a real Delta table with nothing but deltalake."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from e2e.demo.count import Row
from e2e.demo.table import read_rows, seconds


def test_no_table_means_no_rows(tmp_path: Path) -> None:
    """Before the first commit."""
    assert read_rows(tmp_path / "none") == []


def test_times_may_be_text_or_timestamps() -> None:
    """RFC 3339 text and timestamps without a zone are UTC."""
    assert seconds("2026-01-01T00:00:00Z") == 1767225600.0
    assert seconds(datetime.datetime(2026, 1, 1)) == 1767225600.0


def test_every_row_of_the_newest_version_is_read(tmp_path: Path) -> None:
    """Two commits, both rows."""
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for id in ("a", "b"):
        batch = pa.table(
            {
                "id": [id],
                "node": ["edge-1"],
                "priority": pa.array([1], pa.int64()),
                **{name: pa.array([moment]) for name in ("enqueued_at", "_published_at", "_ingested_at")},
            }
        )
        write_deltalake(str(tmp_path / "t"), batch, mode="append")
    at = moment.timestamp()
    assert sorted(read_rows(tmp_path / "t"), key=lambda row: row.id) == [
        Row(id=id, node="edge-1", priority=1, enqueued=at, published=at, ingested=at) for id in ("a", "b")
    ]
