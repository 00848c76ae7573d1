"""How long messages take to a table, for people."""

from __future__ import annotations

from fairlead_cli.text import to_table
from fairlead_wire.validation.route_manifest import DEFAULT_PRIORITY


def test_a_line_names_priority_and_quantiles() -> None:
    """The default priority by its name."""
    measured = {"priority": DEFAULT_PRIORITY, "measured": 7, "p50Seconds": 1.2, "p95Seconds": 75.0}
    assert (
        to_table.line(measured) == "to table  priority default: half within 1.2 s, 95 % within 1 min 15 s; 7 measured"
    )
    assert to_table.priority_shown(3) == 3
