"""How long messages take to a table, for people."""

from __future__ import annotations

from fairlead_cli.text import quantities
from fairlead_wire.validation.route_manifest import DEFAULT_PRIORITY


def test_a_line_names_priority_and_quantiles() -> None:
    """The default priority by its name."""
    measured = {"priority": DEFAULT_PRIORITY, "measured": 7, "p50Seconds": 1.2, "p95Seconds": 75.0}
    assert (
        quantities.line(measured) == "to table  priority default: half within 1.2 s, 95 % within 1 min 15 s; 7 measured"
    )
    assert quantities.priority_shown(3) == 3


def test_more_than_the_window_and_the_moment_are_said() -> None:
    measured = {"priority": 3, "measured": 1043, "window": 512, "p50Seconds": 0.4, "p95Seconds": 1, "asOf": "t1"}
    assert quantities.line(measured).endswith("; the latest 512 of 1043 measured, as of t1")


def test_a_cell_is_one_word() -> None:
    """Of an agent that measures nothing it is a dash."""
    measured = {"measured": 7, "p50Seconds": 0.4, "p95Seconds": 200.0}
    found = [{"priority": 0, **measured}, {"priority": DEFAULT_PRIORITY, **measured}]
    assert quantities.cell(found) == "0:0.4s/3min20s,default:0.4s/3min20s"
    assert quantities.cell([]) == "-"
