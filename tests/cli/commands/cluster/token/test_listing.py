"""The table of join tokens: what each column says of a JoinToken."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from fairlead_cli.commands.cluster.token import view

NOW = datetime.datetime(2026, 11, 20, 12, 0, tzinfo=datetime.UTC)
FAR, PAST = "9000-01-01T00:00:00Z", "2001-01-01T00:00:00Z"
SEEN: dict[str, Any] = {"pins": ["ab" * 32], "url": "wss://hub:10000"}


def cell(column: str, spec: dict[str, Any], status: dict[str, Any] | None) -> object:
    row = {"metadata": {"name": "abcdefghij"}, "spec": spec, **({} if status is None else {"status": status})}
    [found] = [each for each in view(NOW).columns if each.name == column]
    return found.value(row)


@pytest.mark.parametrize(
    ("spec", "status", "state"),
    [
        ({"node": "a", "expires": FAR}, None, "Unseen"),
        ({"node": "a", "expires": FAR}, SEEN, "Good"),
        ({"node": "a", "expires": PAST}, SEEN, "Expired"),
        ({"node": "a", "expires": "2001-01-01T00:00:00"}, SEEN, "Expired"),
        ({"node": "a", "expires": FAR}, {**SEEN, "uses": [{"node": "a"}]}, "Used"),
        ({"node": "a", "expires": PAST}, {**SEEN, "uses": [{"node": "a"}]}, "Used"),
        ({"pattern": "a*", "uses": 2, "expires": FAR}, {**SEEN, "uses": [{"node": "a1"}]}, "Good"),
        ({"node": "a", "expires": "soon"}, SEEN, "Good"),
        ({"node": "a", "expires": "2026-11-20T12:00:01Z"}, SEEN, "Good"),
        ({"node": "a", "expires": "2026-11-20T12:00:00Z"}, SEEN, "Expired"),
    ],
)
def test_state(spec: dict[str, Any], status: dict[str, Any] | None, state: str) -> None:
    """Used up is said before expired; what cannot be read as a time does not expire. The moment is the API server's."""
    assert cell("STATE", spec, status) == state


def test_whom_it_admits_and_admitted() -> None:
    uses = {**SEEN, "uses": [{"node": "a1"}, {"node": "a2"}]}
    spec = {"pattern": "a*", "uses": 5, "expires": FAR}
    assert [cell(each, spec, uses) for each in ("ADMITS", "USED", "NODES")] == ["a*", "2/5", "a1,a2"]
    assert str(cell("EXPIRES", spec, uses)).startswith("in ")
    assert str(cell("EXPIRES", {"node": "a", "expires": PAST}, SEEN)).endswith(" ago")
