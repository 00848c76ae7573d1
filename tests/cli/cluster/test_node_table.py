"""The columns of edge nodes, from both sources."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_cli.cluster import node_table


def row(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n"}, "status": status}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, "Unknown"),
        ({"connected": True}, "Connected"),
        ({"connected": False, "paused": "why"}, "Away,Paused"),
        ({"connected": True, "deletionGuard": {"id": "a", "count": 5}}, "Connected,DeletionGuard"),
        ({"connected": True, "deletionGuard": {"id": "a", "count": 5, "approved": True}}, "Connected"),
        (
            {"connected": True, "conditions": [{"type": "RulesReadable", "status": "False"}]},
            "Connected,RulesUnreadable",
        ),
    ],
)
def test_status(status: dict[str, Any], text: str) -> None:
    assert node_table.of_item(row(**status)).status == text


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({}, "Unknown"),
        ({"connected": True}, "Connected"),
        ({"lastContact": "2026-11-20T12:00:00Z", "paused": "why"}, "Away,Paused"),
        ({"connected": True, "identity": "Held", "rules": "SyncRule r"}, "Connected,IdentityHeld,RulesUnreadable"),
    ],
)
def test_status_of_a_row_of_the_hub(row: dict[str, Any], text: str) -> None:
    counts = {"wanted": 0, "held": 0, "parked": 0, "pending": 0}
    assert node_table.of_row({"node": "n", "connected": False, "lastContact": "", **counts, **row}).status == text
