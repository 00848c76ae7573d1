"""The real agent and a client that sends what no route can take: its dead letters harm nothing that is accepted."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from click.testing import CliRunner
from paho.mqtt.enums import CallbackAPIVersion
from tests.support.edges.edge_line import CountingHub, EdgeProgram, telemetry
from tests.support.processes import free_ports, wait_until

from fairlead_cli.main import build

pytestmark = pytest.mark.process

SECONDS = 100.0
STORE_BYTES = 2 << 20
ENDPOINT = "edge-1/$mqtt/refused"

Careless = Callable[..., None]


@pytest.fixture
def line(tmp_path: Path) -> Iterator[tuple[CountingHub, EdgeProgram, Careless]]:
    """A hub, an agent with a small store, and a client of MQTT 3.1.1 that sends to a topic of nobody's."""
    port = free_ports(1)[0]
    settings = f'[mqtt]\nlisten = "127.0.0.1:{port}"\n[cleanup]\ninterval_seconds = 0.2\n'
    with CountingHub() as hub, EdgeProgram(tmp_path, hub.port, settings=settings, max_bytes=STORE_BYTES) as edge:
        edge.await_routes()

        def careless(count: int, size: int = 20_000) -> None:
            client = paho.Client(CallbackAPIVersion.VERSION2, client_id="careless")
            client.connect("127.0.0.1", port)
            client.loop_start()
            for number in range(count):
                client.publish("nobody/s/topic", f"{number:06}".ljust(size, "."), qos=1).wait_for_publish(SECONDS)
            client.disconnect()
            client.loop_stop()

        yield hub, edge, careless


def refused_queue(edge: EdgeProgram) -> dict[str, Any]:
    return next(queue for queue in edge.status()["queues"] if queue["endpoint"] == ENDPOINT)


def deadletters(edge: EdgeProgram, *arguments: str) -> str:
    done = CliRunner().invoke(build(), ["edge", "deadletters", "--url", edge.url, *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_refused_input_fills_its_share_and_no_more_and_alarms_are_accepted(
    line: tuple[CountingHub, EdgeProgram, Careless],
) -> None:
    """3 MB of it into a store of 2 MB, and kill -9: the books add up, and the room for accepted messages is there."""
    hub, edge, careless = line
    careless(80)
    edge.start_again()
    careless(80)
    refused, queue = edge.status()["refusedInput"], refused_queue(edge)
    assert refused["bytes"] <= refused["maxBytes"] == int((STORE_BYTES - STORE_BYTES // 4) * 0.05)
    assert refused["deadLetters"] == queue["deadLettered"] == 2
    assert queue["accepted"] == queue["evicted"] + queue["deadLettered"] >= 160
    hub.cut()
    alarms: list[str] = []
    with pytest.raises(urllib.error.HTTPError, match="507"):
        while True:
            alarms += edge.publish([telemetry(0, "x" * 5_000)])
    room = STORE_BYTES - STORE_BYTES // 4
    assert len(alarms) * 5_000 > 0.9 * room, "all of it was theirs"
    assert refused_queue(edge)["deadLettered"] == 0, "they made room"
    hub.mend()
    hub.wait_for(len(alarms))


def test_refused_input_is_discarded_by_hand_and_expires(line: tuple[CountingHub, EdgeProgram, Careless]) -> None:
    """By endpoint, code, source and age; also where the agent is killed in between."""
    _, edge, careless = line
    careless(3, 200)
    listed = [json.loads(each) for each in deadletters(edge, "list", "-o", "json").splitlines()]
    [code] = {each["code"] for each in listed}
    everything = ["--endpoint", ENDPOINT, "--code", code, "--since", "1h"]
    assert deadletters(edge, "discard", *everything, "--until", "1h") == "0 discarded\n"
    assert deadletters(edge, "discard", *everything, "--source", "/messages/modules/other") == "0 discarded\n"
    assert deadletters(edge, "discard", *everything, "--dry-run", "-o", "json") == '{"wouldBeDiscarded": 3}\n'
    assert deadletters(edge, "discard", str(listed[0]["number"]), "-o", "json") == '{"discarded": 1}\n'
    edge.start_again()
    assert deadletters(edge, "discard", "--source", listed[0]["message"]["source"]) == "2 discarded\n"
    assert deadletters(edge, "discard", "--all") == "0 discarded\n"
    assert refused_queue(edge)["evicted"] == 3 and edge.status()["refusedInput"]["bytes"] == 0

    careless(2, 200)
    text = (edge.folder / "edge.toml").read_text()
    (edge.folder / "edge.toml").write_text(text + "refused_seconds = 1\n")
    edge.start_again()
    wait_until("they are too old", lambda: refused_queue(edge)["expired"] == 2, seconds=SECONDS)
    assert deadletters(edge, "list") == "no dead letters\n"
