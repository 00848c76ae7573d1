"""`make faults` believes only what was counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.faults.collect import Count, collect, held, sentence


def module(room: str, **count: int) -> Any:
    """What a fault test looks like to the collector; it answers the dose it was given."""
    whole = {"acknowledged": 5, "lost": 0, "duplicated": 0, "untrue": 0} | count
    return SimpleNamespace(
        ROOM=room,
        KILLS=200,
        run=lambda kills, seed, progress: Count(kills=kills, **whole),  # type: ignore[typeddict-item]
    )


def test_the_full_dose_is_the_tests_own() -> None:
    """Without KILLS= a test decides how much is enough."""
    [result] = collect(None, None, 7, ["a"], print, load=lambda _: module("ingest"))
    assert (result["kills"], result["seed"], held(result)) == (200, 7, True)


def test_kills_shortens_the_dose() -> None:
    """KILLS= reaches every test."""
    [result] = collect("ingest", 3, 7, ["a"], print, load=lambda _: module("ingest"))
    assert result["kills"] == 3


def test_other_rooms_are_left_alone() -> None:
    """ONLY= runs one room's tests."""
    assert collect("upstream", 3, 7, ["a"], print, load=lambda _: module("ingest")) == []


def test_anything_lost_fails() -> None:
    """One lost message is a failure, however many were fine."""
    for wrong in ("lost", "duplicated", "untrue"):
        [result] = collect(None, 1, 7, ["a"], print, load=lambda _, wrong=wrong: module("ingest", **{wrong: 1}))  # type: ignore[misc]
        assert not held(result)
        assert sentence(result).startswith("FAIL")


def test_nothing_acknowledged_proves_nothing() -> None:
    """A run in which nothing was accepted cannot have lost anything, and does not count as proof."""
    [result] = collect(None, 1, 7, ["a"], print, load=lambda _: module("ingest", acknowledged=0))
    assert not held(result)


def test_a_test_that_raises_is_a_result_with_its_error() -> None:
    """The other tests still run."""

    def load(name: str) -> Any:
        if name == "bad":
            raise RuntimeError("no port")
        return module("ingest")

    bad, good = collect(None, 1, 7, ["bad", "good"], lambda text: None, load=load)
    assert bad["error"] == "RuntimeError: no port"
    assert held(good)
