"""The real agent with a mistake in a route: what only that route would take waits for it, over kill -9."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.edge_line import CountingHub, EdgeProgram
from tests.support.processes import wait_until

from fairlead_edge.io.client import EdgeClient, Message

pytestmark = pytest.mark.process

SECONDS = 100.0
COUNT = 50
MODULE = "/messages/modules/boiler"


def routes(condition: str) -> dict[str, Any]:
    return {
        "schemaVersion": "1.1.0",
        "routes": {
            "alarms": {"route": f"FROM {MODULE}/* WHERE {condition} INTO $upstream", "priority": 1},
            "other": "FROM /messages/modules/other/* INTO $upstream",
        },
        "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
    }


def held(edge: EdgeProgram) -> dict[str, Any]:
    found = [queue for queue in edge.status()["queues"] if queue["endpoint"] == "edge-1/$routes/held"]
    return found[0] if found else {"length": 0}


def test_messages_of_a_route_with_a_typo_wait_until_it_is_mended_and_then_go(tmp_path: Path) -> None:
    """Each once, also where the agent is killed before and after; what the mended route does not want is counted."""
    with CountingHub(routes=routes("as_nmber(temp) > 80")) as hub, EdgeProgram(tmp_path, hub.port) as edge:
        edge.await_routes()
        client = EdgeClient(edge.url)
        [nowhere, first] = client.publish(
            [Message(source="/messages/modules/nobody", body=0), Message(source=f"{MODULE}/outputs/o", body=0)]
        )
        assert (nowhere.deliveries, nowhere.held) == ([], None), "no route is meant for it"
        assert first.deliveries == [] and first.held is not None
        assert (first.held.route, first.held.object) == ("alarms", "all") and "as_nmber" in first.held.reason
        messages = [
            Message(source=f"{MODULE}/outputs/o", properties={"temp": str(60 + number)}, body=number)
            for number in range(COUNT)
        ]
        assert all(each.held for each in client.publish(messages))
        client.publish([Message(source="/messages/modules/other", body="other")])
        hub.wait_for(1)
        edge.start_again()
        queue = held(edge)
        assert (queue["length"], queue["priority"]) == (COUNT + 1, 1)
        assert queue["stalled"]["code"] == "route_refused" and "alarms" in queue["stalled"]["reason"]
        assert 'endpoint="edge-1/$routes/held"' in edge.get("/metrics").decode()

        hub.change_routes(routes("as_number(temp) > 80"))
        wait_until("they go", lambda: not held(edge)["length"], seconds=SECONDS)
        wanted = [number for number in range(COUNT) if 60 + number > 80]
        hub.wait_for(1 + len(wanted))
        edge.start_again()
        wait_until("nothing waits", edge.drained, seconds=SECONDS)
        bodies = [json.loads(bytes(each.body)) for each in hub.messages()]
        assert [body for body in bodies if body != "other"] == wanted, "each once, in order"
        assert held(edge)["sent"] == COUNT + 1


def test_a_message_held_for_a_route_lives_as_long_as_the_route_says_and_is_counted(tmp_path: Path) -> None:
    spec = routes("as_nmber(temp) > 80")
    spec["routes"]["alarms"]["timeToLiveSecs"] = 1
    settings = "[cleanup]\ninterval_seconds = 0.2\n"
    with CountingHub(routes=spec) as hub, EdgeProgram(tmp_path, hub.port, settings=settings) as edge:
        edge.await_routes()
        [result] = EdgeClient(edge.url).publish([Message(source=f"{MODULE}/outputs/o", body=0)])
        assert result.held is not None
        wait_until("it expires", lambda: held(edge).get("expired") == 1, seconds=SECONDS)
