"""Letters by kind, and one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tables.letters_world import TOPIC, World, name, payload

from fairlead_ingest.dead_letters import LetterSelection
from fairlead_ingest.io.letters import letters
from fairlead_ingest.io.table import tables


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tables.of("delta"), tmp_path / "rows")
    made.publish({0: b"x", 1: b"[]", 2: b'{"id": "a"}', 3: b"x", 4: payload(4), 5: payload(5)})
    made.unfit = {5}
    made.run_job(5)
    return made


def test_kinds_come_with_counts_times_and_one_reason(world):
    found = letters.summary(world.real, world.table, "p", LetterSelection(), "open")
    assert (found["open"], found["repaired"]) == (5, 0)
    assert [(kind["letters"], kind["code"], kind["field"]) for kind in found["kinds"]][:3] == [
        (2, "not_json", ""),
        (1, "bad_field", "body"),
        (1, "bad_field", "epoch"),
    ]
    first = found["kinds"][0]
    assert (first["topic"], first["first"], first["last"]) == (TOPIC, "2026-11-20T23:59:50Z", "2026-11-20T23:59:53Z")


@pytest.mark.slow
def test_open_repaired_and_all(world):
    world.unfit.clear()
    world.repair()
    ids = {
        state: [letter["_id"] for letter in letters.read_letters(world.real, world.table, LetterSelection(), state)]
        for state in ("open", "repaired", "all")
    }
    assert ids["repaired"] == [name(5)]
    assert sorted(ids["open"]) == [name(number) for number in range(4)]
    assert sorted(ids["all"]) == sorted([*ids["open"], name(5)])
    assert [each["_id"] for each in letters.read_letters(world.real, world.table, LetterSelection(), "all", 2)] == [
        name(0),
        name(1),
    ]
