"""`make bench` lists every goal, measured or not, and survives a broken benchmark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from benchmarks.collect import BadRow, Row, checked, collect
from benchmarks.goals import GOALS, ROOMS


def row(name: str, **changes: Any) -> Row:
    """A complete row."""
    whole: dict[str, Any] = {
        "name": name, "value": 9.0, "unit": "s", "goal": "≤ 10 s", "met": True, "baseline": 90.0, "ratio": 0.1,
    }  # fmt: skip
    return cast(Row, whole | changes)


def module(room: str, *rows: Row) -> SimpleNamespace:
    """What a benchmark module looks like to the collector."""
    return SimpleNamespace(ROOM=room, rows=lambda: iter(rows))


def test_every_goal_is_listed_even_when_nothing_was_measured() -> None:
    """A goal without a figure is a row that is not met, never a missing row."""
    rows = collect(None, [], print)
    assert [each["name"] for each in rows] == [name for room in ROOMS for name in GOALS[room]]
    assert not any(each["met"] for each in rows)


def test_a_measured_goal_is_listed_once() -> None:
    """The measured row takes the place of the empty one."""
    rows = collect("ingest", ["a"], print, load=lambda _: module("ingest", row("in.million")))  # type: ignore[arg-type, return-value]
    assert [each["met"] for each in rows if each["name"] == "in.million"] == [True]
    assert len(rows) == len(GOALS["ingest"])


def test_a_name_is_listed_once_whoever_measures_it() -> None:
    """Readers of bench.json look figures up by name."""
    twice = module("ingest", row("in.million"), row("in.million", met=False))
    rows = collect("ingest", ["a"], print, load=lambda _: twice)  # type: ignore[arg-type, return-value]
    assert [each["met"] for each in rows if each["name"] == "in.million"] == [True]


def test_only_leaves_other_rooms_alone() -> None:
    """With ONLY= neither the modules nor the goals of other rooms appear."""
    rows = collect("messaging", ["a"], print, load=lambda _: module("ingest", row("in.million")))  # type: ignore[arg-type, return-value]
    assert {each["name"] for each in rows} == set(GOALS["messaging"])


def test_a_broken_benchmark_is_told_and_costs_only_its_own_rows() -> None:
    """A module that raises is reported with its traceback; the goals are all still there."""
    said: list[str] = []

    def load(name: str) -> Any:
        raise RuntimeError("no disk")

    rows = collect("upstream", ["benchmarks.upstream.bench_x"], said.append, load=load)
    assert len(rows) == len(GOALS["upstream"])
    assert any("benchmarks.upstream.bench_x failed" in text and "no disk" in text for text in said)


def test_an_incomplete_row_is_refused_by_name() -> None:
    """The reader of bench.json may rely on every key."""
    incomplete = row("in.idle")
    del incomplete["unit"]  # type: ignore[misc]
    with pytest.raises(BadRow, match="bench_z: a row lacks unit"):
        checked(incomplete, "bench_z")
