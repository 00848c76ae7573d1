"""Lines of a log as people read them, and which of them were asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_cli.commands.cluster import logs

LINE = {
    "ts": "2026-11-22T10:00:00.123456Z",
    "level": "info",
    "room": "hub",
    "logger": "hub.link",
    "event": "session_opened",
}


def said(**more: Any) -> str:
    found = logs.parse(json.dumps({**LINE, **more}))
    assert found is not None
    return logs.text(found, "hub-0")


def test_time_level_who_event_and_the_rest() -> None:
    assert said(node="edge-1", objects=3, why="a b", none=None) == (
        '10:00:00.123  info      hub-0  session_opened node=edge-1 objects=3 why="a b" none=null'
    )


@pytest.mark.parametrize("line", ["", "Traceback (most recent call last):", "7", "[]", '{"level": "info"}', "[" * 9999])
def test_what_is_not_ours_is_said_to_be_none(line: str) -> None:
    assert logs.parse(line) is None


def test_a_value_is_not_obeyed_by_the_terminal() -> None:
    """A node's reason may hold anything, also a line of its own."""
    shown = said(reason="\x1b[2Jgone\n10:00:00 error")
    assert "\x1b" not in shown and "\n" not in shown
    assert len(said(reason="x" * 100_000)) < 1000


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, True),
        ({"node": "edge-1"}, True),
        ({"node": "edge-2"}, False),
        ({"events": frozenset({"session_opened", "x"})}, True),
        ({"events": frozenset({"x"})}, False),
        ({"level": "info"}, True),
        ({"level": "warning"}, False),
    ],
)
def test_which_lines_are_wanted(asked: dict[str, Any], wanted: bool) -> None:
    """What is not ours is shown where nothing was asked for by what only ours have."""
    everything: dict[str, Any] = {"node": None, "events": frozenset(), "level": None}
    found = {**LINE, "node": "edge-1"}
    assert logs.is_wanted(found, **{**everything, **asked}) == wanted
    assert logs.is_wanted(None, **{**everything, **asked}) == (not asked)
