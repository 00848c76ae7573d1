"""Rows of how long messages take to a table: as of when, and what is worth a write."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_hub.status import to_table
from fairlead_hub.status.to_table import ToTables
from fairlead_wire import message


def said(priority: int = 0, measured: int = 1, p50: float = 1.0, p95: float = 2.0) -> message.ToTable:
    return message.ToTable(priority=priority, measured=measured, p50_seconds=p50, p95_seconds=p95)


def row(priority: int = 0, measured: int = 1, p50: float = 1.0, p95: float = 2.0, as_of: str = "t1") -> dict[str, Any]:
    [made] = to_table.rows([said(priority, measured, p50, p95)], [], as_of)
    return made


def test_a_row_says_of_how_many_and_as_of_when() -> None:
    """The window holds the latest 512; figures that stay the same keep their moment."""
    first = to_table.rows([said(1, 2000), said(0, 3)], [], "t1")
    assert first == [
        {"priority": 0, "measured": 3, "window": 3, "p50Seconds": 1.0, "p95Seconds": 2.0, "asOf": "t1"},
        {"priority": 1, "measured": 2000, "window": 512, "p50Seconds": 1.0, "p95Seconds": 2.0, "asOf": "t1"},
    ]
    second = to_table.rows([said(0, 3), said(1, 2001)], first, "t2")
    assert [each["asOf"] for each in second] == ["t1", "t2"]


def test_a_node_that_says_too_much_gets_its_most_urgent_rows_each_once() -> None:
    found = to_table.rows([said(each) for each in range(100, 0, -1)] * 2, [], "t1")
    assert [each["priority"] for each in found] == list(range(1, to_table.ROWS_MAX + 1))


@pytest.mark.parametrize(
    ("after", "step"),
    [
        ([], False),
        ([row()], False),
        ([row(measured=500)], False),
        ([row(p95=3.9)], False),
        ([row(p95=4.0)], True),
        ([row(p50=0.5)], False),
        ([row(p50=0.0)], True),
        ([row(), row(priority=3)], True),
    ],
)
def test_a_step_is_another_priority_or_a_time_that_doubled_or_halved(after: list[dict[str, Any]], step: bool) -> None:
    """By a second at least: what takes 0.05 s now and 0.1 s then is the same to people."""
    assert to_table.is_step(after, [row()]) is step


def test_what_was_edited_by_hand_is_left_out() -> None:
    """Definitions of before do not keep it: then there is nothing."""
    bad: list[Any] = [
        1, {}, {**row(), "priority": "a"}, {**row(), "p50Seconds": True}, {**row(), "asOf": 3}, {**row(), "window": -1}
    ]  # fmt: skip
    assert to_table.rows_in({"toTable": [*bad, row()]}) == [row()]
    assert to_table.rows_in({}) == to_table.rows_in({"toTable": 3}) == to_table.rows_in({"toTable": None}) == []


def test_a_hub_that_starts_takes_over_what_stands() -> None:
    """With its moment; of a node that is away it stays."""
    tables = ToTables()
    standing = {"toTable": [row(as_of="yesterday")]}
    assert tables.of("edge-1", lambda: standing) == (row(as_of="yesterday"),)
    assert not tables.received("edge-1", [said()], lambda: standing, "today")
    assert tables.of("edge-1", dict) == (row(as_of="yesterday"),)
    assert tables.received("edge-1", [said(p95=20.0)], dict, "today")
    assert not tables.received("edge-1", [said(p95=21.0)], dict, "today"), "it was said"
    tables.forget("edge-1")
    assert tables.of("edge-1", dict) == ()


def test_small_changes_add_up_to_a_step_since_the_last_write() -> None:
    tables = ToTables()
    tables.received("edge-1", [said(p95=10.0)], dict, "t1")
    assert not tables.received("edge-1", [said(p95=15.0)], dict, "t2")
    assert tables.received("edge-1", [said(p95=20.0)], dict, "t3")
    assert not tables.received("edge-1", [said(p95=30.0)], dict, "t4")
    tables.written("edge-1")
    assert not tables.received("edge-1", [said(p95=40.0)], dict, "t5")
