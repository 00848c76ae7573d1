"""`fairlead edge receipt`: a real agent and hub, asked as a user would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.edges.edge_line import CountingHub, EdgeProgram, telemetry
from tests.support.processes import wait_until

from fairlead_cli.commands.edge import receipt
from fairlead_cli.main import build


def ask(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(build(), ["edge", "receipt", *arguments, "--url", url])


@pytest.mark.process
def test_a_person_on_the_node_sees_where_a_message_is(tmp_path: Path) -> None:
    """While it waits, in its topic, and when nothing is known; the exit code says whether it is as far as asked."""
    with CountingHub() as hub:
        edge = EdgeProgram(tmp_path / "edge", hub.port)
        edge.start()
        try:
            edge.await_routes()
            hub.cut()
            wait_until("the link is down", lambda: edge.status()["link"]["state"] != "connected", seconds=100.0)
            [id] = edge.publish([telemetry(1, 21)])
            shown = ask(edge.url, id)
            assert shown.exit_code == 1 and f"message   {id}: accepted" in shown.output
            assert "priority 1: waits, 0 before it, expires in" in shown.output
            hub.mend()
            shown = ask(edge.url, id, "--wait", "60", "--until", "in_topic", "-o", "json")
            assert (shown.exit_code, json.loads(shown.output)["state"]) == (0, "in_topic")
            shown = ask(edge.url, id, "--until", "in_topic")
            assert shown.exit_code == 0 and "in topic default/telemetry" in shown.output
            assert ask(edge.url, id).exit_code == 1, "in no table"
            unknown = ask(edge.url, "a" * 32)
            assert unknown.exit_code == 1 and f"fairlead ingest receipt {'a' * 32}" in unknown.output
            assert "32 hex digits" in ask(edge.url, "x").output
        finally:
            edge.kill()


def delivery(**more: Any) -> dict[str, Any]:
    return {"endpoint": "iothub", "priority": 1, "topic": "n/t", **more}


def test_each_way_is_told_in_words() -> None:
    """Tables by name, what ended here with its reason, and when the hub was heard."""
    place = {"topic": "n/t", "position": "1" * 40, "exact": False}
    tables = [
        {"in_table": True, "reader": "a", "table": "/a", "row": True, "batch": 7},
        {"in_table": True, "reader": "b", "table": "/b", "row": None, "batch": None},
        {"in_table": False, "reader": "c", "table": "/c", "row": None, "batch": 3},
    ]
    letter = {"number": 4, "code": "bad_body", "reason": "why"}
    deliveries = [
        delivery(state="in_table", in_topic=place, tables=tables),
        delivery(state="in_topic", in_topic=place, note="no table reads it"),
        delivery(state="dead_lettered", dead_letter=letter),
        delivery(state="expired"),
        delivery(state="accepted", in_flight=True, priority=2_000_000_000),
    ]
    found = {
        "id": "x", "state": "expired", "accepted": {"age_seconds": None}, "deliveries": deliveries, "as_of": None,
        "online": False,
    }  # fmt: skip
    text = "\n".join(receipt._lines(found))
    for part in (
        f"in topic n/t at or before {'1' * 40}", "table /a of a: read, and has a row (batch 7 or before)",
        "table /b of b: read\n", "table /c of c: not read yet\n", "no table reads it",
        "dead letter 4: bad_body: why", "expired: its time to live ended here", "priority default: on its way",
        "as the hub said at never; it cannot be asked now",
    ):  # fmt: skip
        assert part in text, part
