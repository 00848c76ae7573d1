"""What a check found, in lines."""

from __future__ import annotations

from typing import Any

from fairlead_cli.commands.ingest import check

CONTRACT = {"file": "c.toml", "name": "t", "version": 3, "mode": "freeze", "columns": 2, "routes": 1}
TOPIC = {"topic": "a/t", "messages": 3, "fit": 3, "rescued": 0, "dead_letters": 0, "wrong": [], "unknown": [],
         "untold": 0, "routes": {}}  # fmt: skip


def lines(**answer: Any) -> list[str]:
    return list(check.lines({"contract": CONTRACT, **answer}))


def test_without_a_topic_it_says_that_nothing_was_played() -> None:
    """A file alone is looked at, too."""
    assert lines() == ["c.toml: t version 3, freeze, 2 columns, 1 routes", "no messages were played; name a TOPIC"]


def test_changes_say_whether_they_break_something() -> None:
    """With route and column where they are of one."""
    changes = [
        {"kind": "added", "column": "a", "route": "", "what": "a new column, int"},
        {"kind": "stricter", "column": "b", "route": "r", "what": "is required now"},
    ]
    found = lines(against={"file": "old", "changes": changes}, tables=[{"table": "x", "exists": True, "changes": []}])
    assert found[1:5] == [
        "against old:", "  ok       a a new column, int", "  breaks   route r: b is required now", "table x:",
    ]  # fmt: skip
    assert found[5] == "  nothing changes"


def test_a_long_list_is_cut_and_says_so() -> None:
    """JSON has all of it."""
    wrong = [
        {"code": "misfit", "field": f"f{n}", "reason": "required", "messages": 1, "example_id": "0", "example": ""}
        for n in range(check.SHOWN_MAX + 2)
    ]
    found = lines(topics=[{**TOPIC, "fit": 0, "dead_letters": 3, "wrong": wrong, "untold": 7}])
    assert "  and 2 more ways not to fit; -o json lists them" in found
    assert "  and more that are not listed one by one, 7 times" in found


def test_names_of_devices_are_shown_and_not_obeyed() -> None:
    """Nor does a long one fill the screen."""
    found = lines(topics=[{**TOPIC, "unknown": [{"name": "\x1b[2J" + "n" * 500, "type": None, "messages": 1}]}])
    assert found[3].startswith("          1  \\x1b[2Jnn") and found[3].endswith("…: only null")


def test_routes_without_a_message_are_named() -> None:
    """A contract that nothing comes for is worth a look."""
    found = lines(topics=[{**TOPIC, "rescued": 1, "fit": 2, "routes": {"doors": 3, "engines": 0, "": 0}}])
    assert found[1] == "a/t: 3 messages, 2 fit, 1 would be rescued"
    assert found[-1] == "  no message for engines"
