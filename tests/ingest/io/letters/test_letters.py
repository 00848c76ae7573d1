"""Letters are found, each once, in chunks that are bounded."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.tables.letters_world import TOPIC, World, name, payload
from tests.support.tables.table_formats import append_rows

from fairlead_ingest.dead_letters import LetterSelection
from fairlead_ingest.io.letters import letters
from fairlead_ingest.io.table import tables


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tables.of("delta"), tmp_path / "rows")
    made.publish({number: b"broken" * 100 if number % 2 else payload(number) for number in range(40)})
    made.run_job(19)
    made.run_job(39)
    return made


def test_chunks_are_bounded_by_rows_and_by_bytes(world):
    wanted = letters.index_letters(world.real, world.table, LetterSelection()).letters
    assert wanted["_id"].to_pylist() == [name(number) for number in range(1, 40, 2)]
    bounds: Any
    for bounds in ({"rows": 3}, {"size": 2000}):
        parts = list(letters.chunks(world.real, world.table, wanted, **bounds))
        assert len(parts) > 1
        assert sorted(pa.concat_tables(parts)["_id"].to_pylist()) == wanted["_id"].to_pylist()
        assert set(pa.concat_tables(parts)["payload"].to_pylist()) == {b"broken" * 100}


def written_twice(world: World, count: int) -> pa.Table:
    """Append this many letters a second time; returns the index of all."""
    place = tables.beside(world.table, tables.DEAD_LETTERS)
    again = tables.existing(world.real, place).to_table().slice(0, count)
    append_rows(world.real, place, again)
    return letters.index_letters(world.real, world.table, LetterSelection()).letters


def test_a_letter_that_is_there_twice_is_one(world):
    wanted = written_twice(world, 3)
    assert wanted.num_rows == 20
    assert sum(part.num_rows for part in letters.chunks(world.real, world.table, wanted)) == 20


def test_more_letters_than_a_window_come_each_once(world, monkeypatch):
    monkeypatch.setattr(letters, "WINDOW_ROWS", 3)
    wanted = written_twice(world, 8)
    assert [window.num_rows for window in letters.windows(wanted)] == [3, 3, 3, 3, 3, 3, 2]
    found = pa.concat_tables(letters.chunks(world.real, world.table, wanted))
    assert sorted(found["_id"].to_pylist()) == wanted["_id"].to_pylist()


def test_letters_of_an_older_version_have_no_code(tmp_path):
    old = pa.schema([field for field in tables.DEAD_LETTERS_SCHEMA if field.name not in ("code", "fields")])
    delta, table = tables.of("delta"), tmp_path / "rows"
    place = tables.beside(table, tables.DEAD_LETTERS)
    delta.ensure(place, old)
    row = {"_topic": TOPIC, "_id": "0a", "_batch": 0, "payload": b"x", "error": "e"}
    now = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
    append_rows(delta, place, [{**row, "_published_at": now, "_ingested_at": now, "_date": now.date()}], old)
    wanted = letters.index_letters(delta, table, LetterSelection(codes=frozenset(["unknown"]))).letters
    [chunk] = letters.chunks(delta, table, wanted)
    assert chunk.select(["_id", "code", "fields", "payload"]).to_pylist() == [
        {"_id": "0a", "code": None, "fields": None, "payload": b"x"}
    ]
    assert letters.index_letters(delta, table, LetterSelection(codes=frozenset(["other"]))).letters.num_rows == 0


def test_without_tables_there_are_none(tmp_path):
    assert letters.index_letters(tables.of("delta"), tmp_path / "rows", LetterSelection()).letters.num_rows == 0
