"""`fairlead top`: the busiest first."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner
from tests.support.topics.messaging import Topics

from fairlead_cli.commands.cluster import top
from fairlead_cli.main import build
from fairlead_cli.output import tables
from fairlead_messaging.client.io.sync_client import Client


def item(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": status}


def test_nodes_by_what_waits() -> None:
    """Messages first, then objects; a node the hub never met has nothing."""
    rows = top.busiest_nodes(
        [
            item("a"),
            item("b", objectsWanted=5, objectsHeld=1),
            item("c", queuedMessages=3, queues=[{"length": 3, "oldestAgeSeconds": 9}]),
        ]
    )
    assert [row["node"] for row in rows] == ["c", "b", "a"]
    assert rows[0]["oldestSeconds"] == 9 and rows[1]["objectsPending"] == 4


def test_queues_that_stand_still_come_first() -> None:
    queues = [
        {"priority": 0, "length": 9},
        {"priority": 1, "length": 1, "stalledSeconds": 40},
        {"priority": 2, "length": 0},
    ]
    assert [row["priority"] for row in top.busiest_queues([item("a", queues=queues)])] == [1, 0]


def test_the_usual_priority_is_named() -> None:
    """Routes that name none have a number that says nothing; for programs it stays a number."""
    rows = top.busiest_queues(
        [item("a", queues=[{"priority": 2_000_000_000, "length": 1}, {"priority": 3, "length": 2}])]
    )
    printed, _ = tables.lines(top.QUEUES.columns, rows)
    assert [line.split()[:3] for line in printed[1:]] == [["a", "3", "2"], ["a", "default", "1"]]
    assert {row["priority"] for row in rows} == {3, 2_000_000_000}


def test_topics_with_their_rates(messaging: Topics) -> None:
    with Client(messaging.url) as client:
        client.create_topic("default", "a")
        client.create_topic("default", "b")
        client.publish("default", "b", [b"x"])
    words = ["top", "topics", "--url", messaging.url, "--seconds", "0.1", "-o", "json"]
    found = json.loads(CliRunner().invoke(build(), words).stdout)["items"]
    assert {(row["topic"], row["messages"], row["messagesPerSecond"]) for row in found} == {
        ("a", 0, 0.0),
        ("b", 1, 0.0),
    }
    limited = json.loads(CliRunner().invoke(build(), [*words, "--limit", "1"]).stdout)["items"]
    assert len(limited) == 1
