"""Rows by their identity: what is there stays once, also beside other writers."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.tables.table_formats import append_rows

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables, unique_append
from fairlead_ingest.io.table.unique_append import UniqueAppend
from fairlead_ingest.table.commit import Collided

SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
DAY = datetime.date(2026, 11, 20)


def rows(*ids: str, topic: str = "n/a") -> pa.Table:
    return pa.Table.from_pylist([{"_id": each, "_topic": topic, "_date": DAY} for each in ids], SCHEMA)


@pytest.fixture
def kind() -> str:
    return "delta"


def ids(kind: str, table: Path) -> list[str]:
    return sorted(tables.existing(tables.of(kind), table).to_table()["_id"].to_pylist())


@pytest.mark.slow
def test_rows_that_others_added_since_the_check_are_left_out(kind, tmp_path):
    """With a commit sequence and without; the same id in another topic is another row."""
    table_format, table = tables.of(kind), tmp_path / "rows"
    table_format.ensure(table, SCHEMA)
    wanted = rows("01", "02", "03")
    first, second = (UniqueAppend(table_format, table, each, wanted) for each in ("first", "second"))
    assert first.append(rows("01", "02"))["_id"].to_pylist() == ["01", "02"]
    append_rows(table_format, table, rows("03", topic="n/b"))
    assert second.append(wanted)["_id"].to_pylist() == ["03"]
    assert second.holds(wanted).to_pylist() == [True] * 3
    assert first.append(wanted).num_rows == 0
    assert ids(kind, table) == ["01", "02", "03", "03"]
    assert UniqueAppend(table_format, table, "third", rows("03", "04")).holds(rows("03", "04")).to_pylist() == [
        True,
        False,
    ]


def test_a_table_that_others_write_all_the_time_is_given_up(kind, tmp_path, monkeypatch):
    table_format, table = tables.of(kind), tmp_path / "rows"
    table_format.ensure(table, SCHEMA)
    away: errors.Wait | None = None

    def collide(*_: object) -> None:
        raise Collided("another was first", unanswered=away)

    monkeypatch.setattr(unique_append, "COLLISIONS_MAX", 3)
    monkeypatch.setattr(table_format, "append", collide)
    appending = UniqueAppend(table_format, table, "a", rows("01"))
    with pytest.raises(errors.Stop, match=errors.TABLE_TAKEN):
        appending.append(rows("01"))
    away = errors.Wait(errors.STORE_AWAY, "no answer")
    with pytest.raises(errors.Wait, match="no answer"):
        appending.append(rows("01"))
