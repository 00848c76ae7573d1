"""Rows counted in batches: the same as counted at once, within the days that were asked for."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from fairlead_ingest.io import table_report
from fairlead_ingest.rows.envelope import TIMESTAMP

NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)
SCHEMA = pa.schema(
    [("node", pa.string()), ("priority", pa.int32()), ("enqueued_at", TIMESTAMP), ("_published_at", TIMESTAMP),
     ("_ingested_at", TIMESTAMP), ("_date", pa.date32())]
)  # fmt: skip


def table(*rows: Mapping[str, object]) -> ds.Dataset:
    base = {"_published_at": NOON, "_ingested_at": NOON + SECOND, "_date": NOON.date()}
    return ds.dataset(pa.Table.from_pylist([{**base, **row} for row in rows], schema=SCHEMA))


@pytest.mark.parametrize("batch_rows", [1, 2, 131_072])
def test_counts_do_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch, batch_rows: int) -> None:
    """Nodes, priorities, delays, and counts by time; progress is what was counted."""
    monkeypatch.setattr(table_report, "BATCH_ROWS", batch_rows)
    told: list[int] = []
    found = table_report.count_rows(
        table(
            {"node": "b", "priority": 0, "enqueued_at": NOON - SECOND},
            {"node": "a", "priority": None, "enqueued_at": NOON - 9 * SECOND},
            {"node": "b", "priority": 10, "enqueued_at": None},
            {"node": None, "priority": 0, "enqueued_at": NOON},
        ),
        None,
        told.append,
    )
    assert sum(told) == found.rows == 4
    assert found.nodes() == [("b", 2), ("None", 1), ("a", 1)]
    assert found.priorities() == [("0", 2), ("10", 1), ("None", 1)]
    assert [(delay.priority, delay.rows) for delay in found.delays()] == [(0, 2), (None, 1)]
    assert 1.0 <= found.delays()[0].to_messaging[1] <= 1.13 and 10.0 <= found.delays()[1].to_table[0] <= 11.3
    first, second = found.over_time.points()
    assert (first.arrived, first.taken, first.waiting, second.taken, second.waiting) == (4.0, 0.0, 4, 4.0, 0)


def test_only_the_days_that_were_asked_for() -> None:
    old = NOON - datetime.timedelta(days=3)
    rows = table({"_published_at": old, "_ingested_at": old, "_date": old.date()}, {})
    assert table_report.count_rows(rows, NOON.date(), lambda _: None).rows == 1
    assert table_report.count_rows(rows, old.date(), lambda _: None).rows == 2


def test_more_priorities_than_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what a message says: memory is bounded, no row is lost."""
    monkeypatch.setattr(table_report, "PRIORITIES_MAX", 2)
    found = table_report.count_rows(
        table(*({"priority": each, "enqueued_at": NOON} for each in (1, 2, 3, 4))), None, lambda _: None
    )
    assert found.priorities() == [("1", 1), ("2", 1), ("None", 2)]
    assert [(each.priority, each.rows) for each in found.delays()] == [(1, 1), (2, 1), (None, 2)]


def test_more_nodes_than_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded; no row is lost."""
    monkeypatch.setattr(table_report, "NODES_MAX", 2)
    monkeypatch.setattr(table_report, "BATCH_ROWS", 1)
    found = table_report.count_rows(table(*({"node": f"edge-{each}"} for each in range(9))), None, lambda _: None)
    assert found.nodes() == [(table_report.OTHER_NODES, 7), ("edge-0", 1), ("edge-1", 1)]


def test_rows_without_an_envelope_have_times() -> None:
    """Of a job with `format = "raw"`."""
    rows = table({}, {}).to_table()
    found = table_report.count_rows(
        ds.dataset(rows.select(["_published_at", "_ingested_at", "_date"])), None, lambda _: None
    )
    assert (found.rows, found.nodes(), found.delays()) == (2, [], [])
    assert found.over_time.points()[0].p50 is not None
