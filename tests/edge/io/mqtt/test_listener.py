"""The real agent spoken to by other people's MQTT clients: paho (3.1.1 and 5) and aiomqtt."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.support.edges.edge_line import CountingHub, EdgeProgram
from tests.support.processes import free_ports, wait_until

from fairlead_edge.io.mqtt.intake import PATIENCE_SECONDS

pytestmark = pytest.mark.process

SECONDS = 60.0
ROUTES = {
    "schemaVersion": "1.1.0",
    "routes": {
        "up": "FROM /messages/modules/camera/* INTO $upstream",
        "other": "FROM /messages/mqtt/* INTO $upstream",
        "leaf": "FROM /messages WHERE $connectionDeviceId = 'meter-7' INTO $upstream",
        "in": 'FROM /messages/modules/producer/* INTO BrokeredEndpoint("/modules/filter/inputs/in")',
        "again": 'FROM /messages/modules/producer2/* INTO BrokeredEndpoint("/modules/filter/inputs/more")',
    },
    "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
}


class Line:
    """A hub that counts, and an agent that speaks MQTT."""

    def __init__(self, hub: CountingHub, edge: EdgeProgram, port: int) -> None:
        self.hub, self.edge, self.port = hub, edge, port

    def bodies(self) -> list[Any]:
        return [json.loads(bytes(each.body)) for each in self.hub.messages()]

    def client(self, protocol: int = paho.MQTTv311, client_id: str = "", **more: Any) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, protocol=MQTTProtocolVersion(protocol), **more
        )
        return client


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    port = free_ports(1)[0]
    settings = f'[mqtt]\nlisten = "127.0.0.1:{port}"\nother_topics = true'
    folder = tmp_path_factory.mktemp("mqtt")
    with CountingHub(routes=ROUTES) as hub, EdgeProgram(folder, hub.port, settings=settings) as edge:
        edge.await_routes()
        yield Line(hub, edge, port)


def connected(line: Line, client: paho.Client) -> paho.Client:
    done = threading.Event()
    client.on_connect = lambda *_: done.set()
    client.connect("127.0.0.1", line.port)
    client.loop_start()
    assert done.wait(SECONDS)
    return client


@pytest.mark.parametrize("protocol", [paho.MQTTv311, paho.MQTTv5])
def test_published_messages_are_upstream_when_they_were_acknowledged(line: Line, protocol: int) -> None:
    client = connected(line, line.client(protocol, f"camera-{protocol}"))
    sent = [
        client.publish("fairlead/camera/frames", json.dumps({"n": n, "p": int(protocol)}), qos=1) for n in range(200)
    ]
    for each in sent:
        each.wait_for_publish(SECONDS)
    client.disconnect()
    client.loop_stop()
    wanted = {(n, int(protocol)) for n in range(200)}

    def arrived() -> bool:
        return wanted <= {(body["n"], body["p"]) for body in line.bodies() if isinstance(body, dict) and "p" in body}

    wait_until("all are upstream", arrived, seconds=SECONDS)
    found = [each for each in line.hub.messages() if b'"n":0' in bytes(each.body).replace(b" ", b"")]
    assert {each.source for each in found} == {"/messages/modules/camera/outputs/frames"}


def test_properties_of_mqtt_5_and_of_the_originals_topics(line: Line) -> None:
    client = connected(line, line.client(paho.MQTTv5))
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = [("colour", "red")]
    properties.ContentType = "text/plain"
    client.publish("fairlead/camera/frames", b"plain", qos=1, properties=properties).wait_for_publish(SECONDS)
    topic = "devices/edge-1/modules/camera/messages/events/%24.on=lens&a%20b=c"
    client.publish(topic, b'{"original":1}', qos=1).wait_for_publish(SECONDS)
    client.publish("devices/meter-7/messages/events/", b'{"leaf":1}', qos=1).wait_for_publish(SECONDS)
    client.publish("plant/hall/1", b'{"other":1}', qos=1).wait_for_publish(SECONDS)
    client.disconnect()
    client.loop_stop()

    def found(**wanted: Any) -> list[Any]:
        return [each for each in line.hub.messages() if all(getattr(each, k) == v for k, v in wanted.items())]

    wait_until(
        "the other topic is upstream", lambda: bool(found(source="/messages/mqtt/plant/hall/1")), seconds=SECONDS
    )
    [original] = found(source="/messages/modules/camera/outputs/lens")
    assert original.properties == {"a b": "c"}
    [leaf] = found(source="/messages")
    assert leaf.system_properties["connectionDeviceId"] == "meter-7"
    [plain] = found(properties={"colour": "red"})
    assert plain.system_properties["contentType"] == "text/plain"
    assert plain.body_base64 == "cGxhaW4="


def test_a_refusal_for_good_is_a_code_in_5_and_a_dead_letter_in_3(line: Line) -> None:
    codes: list[Any] = []
    client = line.client(paho.MQTTv5)
    client.on_publish = lambda client, data, mid, code, properties: codes.append((code, properties))
    connected(line, client)
    client.publish("fairlead/toomany/levels/here", b"1", qos=1).wait_for_publish(SECONDS)
    client.disconnect()
    client.loop_stop()
    [(code, properties)] = codes
    assert code.value == 0x90
    assert "fairlead/<module>/<output>" in properties.ReasonString
    client = connected(line, line.client())
    client.publish("fairlead/toomany/levels/here", b"again", qos=1).wait_for_publish(SECONDS)
    client.disconnect()
    client.loop_stop()
    letters = json.loads(line.edge.get("/v1/deadletters"))["deadLetters"]
    [letter] = [each for each in letters if each["endpoint"] == "edge-1/$mqtt/refused"]
    assert letter["code"] == "bad_source"
    assert letter["message"]["systemProperties"]["mqttTopic"] == "fairlead/toomany/levels/here"


@pytest.mark.parametrize("protocol", [paho.MQTTv311, paho.MQTTv5])
def test_a_subscriber_gets_what_is_routed_to_its_input(line: Line, protocol: int) -> None:
    got: list[tuple[str, bytes]] = []
    subscriber = line.client(protocol, "filter")
    subscriber.on_message = lambda client, data, message: got.append((message.topic, bytes(message.payload)))
    connected(line, subscriber)
    subscriber.subscribe("fairlead/filter/inputs/in", qos=1)
    subscriber.subscribe("devices/edge-1/modules/filter/inputs/#", qos=1)
    ids = line.edge.publish([{"source": "/messages/modules/producer", "body": {"n": n}} for n in range(50)])
    ids += line.edge.publish([{"source": "/messages/modules/producer2", "properties": {"k": "v w"}, "body": 7}])
    wait_until("all were delivered", lambda: len(got) >= len(ids), seconds=SECONDS)
    wait_until("and are acknowledged", line.edge.drained, seconds=SECONDS)
    assert sorted(json.loads(payload)["n"] for _, payload in got if b"n" in payload) == list(range(50))
    [topic] = [topic for topic, payload in got if payload == b"7"]
    assert topic.startswith("devices/edge-1/modules/filter/inputs/more/k=v%20w&")
    subscriber.disconnect()
    subscriber.loop_stop()


def test_what_a_subscriber_left_is_given_to_the_next(line: Line) -> None:
    async def take(manual: bool) -> bytes:
        async with aiomqtt.Client("127.0.0.1", line.port, identifier="filter") as client:
            if manual:
                client._client.manual_ack_set(True)
            await client.subscribe("fairlead/filter/inputs/in", qos=1)
            return bytes((await anext(aiter(client.messages))).payload)

    line.edge.publish([{"source": "/messages/modules/producer", "body": "once more"}])
    for manual in (True, False):
        assert asyncio.run(asyncio.wait_for(take(manual), SECONDS)) == b'"once more"'
    wait_until("it is acknowledged", line.edge.drained, seconds=SECONDS)


def test_a_will_comes_when_its_client_dies_and_not_when_it_leaves(line: Line) -> None:
    for leaves in (True, False):
        client = line.client(client_id="frail")
        client.will_set("fairlead/camera/state", json.dumps({"gone": leaves}), qos=1)
        connected(line, client)
        if leaves:
            client.disconnect()
        else:
            client.socket().close()  # type: ignore[union-attr]
        client.loop_stop()
    wait_until("the will came", lambda: {"gone": False} in line.bodies(), seconds=SECONDS)
    assert {"gone": True} not in line.bodies()


def test_metrics_and_status_name_it(line: Line) -> None:
    client = connected(line, line.client())
    metrics = line.edge.get("/metrics").decode()
    assert "fairlead_edge_mqtt_connections 1" in metrics
    assert 'fairlead_edge_mqtt_published_total{qos="1"}' in metrics
    assert line.edge.status()["mqtt"]["connections"] == 1
    client.disconnect()
    client.loop_stop()


def post(line: Line, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(f"{line.edge.url}{path}", json.dumps(body or {}).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


def test_no_text_in_a_property_stops_a_subscriber(line: Line) -> None:
    """What no packet may hold is refused, by itself; what some clients choke on is sent as U+FFFD, and counted."""
    got: dict[bytes, Any] = {}
    subscriber = line.client(paho.MQTTv5, "filter")
    subscriber.on_message = lambda client, data, message: got.update({bytes(message.payload): message.properties})
    connected(line, subscriber)
    subscriber.subscribe("fairlead/filter/inputs/in", qos=1)

    def message(n: int, **properties: str) -> dict[str, Any]:
        return {"source": "/messages/modules/producer", "properties": properties, "body": n}

    texts = ["plain", "a\0b", "\ufeff", "line\nbreak", "\x85", "x" * 70_000, "last"]
    answer = post(line, "/v1/messages", {"messages": [message(n, text=text) for n, text in enumerate(texts)]})
    assert ["error" in each for each in answer["results"]] == [n == 1 for n in range(len(texts))]
    assert "contains U+0000" in answer["results"][1]["error"]["message"]
    wait_until("the others come", lambda: {b"0", b"2", b"3", b"4", b"6"} <= set(got), seconds=SECONDS)
    found = [dict(got[key].UserProperty)["text"] for key in (b"0", b"2", b"3", b"6")]
    assert found == ["plain", "\ufffd", "line\ufffdbreak", "last"]
    metrics = line.edge.get("/metrics").decode()
    assert "fairlead_edge_mqtt_replaced_total 3" in metrics
    assert "fairlead_edge_mqtt_undeliverable_total 0" not in metrics
    assert b"5" not in got  # 70,000 bytes have no place in a packet: not cut, and kept for a reader over HTTP
    path = "/v1/modules/filter/inputs/in/messages"

    def taken_over_http() -> bool:
        found = json.loads(line.edge.get(f"{path}?max=1&wait=1"))["messages"]
        for each in found:
            assert len(each["properties"]["text"]) == 70_000
            post(line, f"{path.removesuffix('/messages')}/ack", {"ids": [each["id"]]})
        return bool(found)

    subscriber.disconnect()  # which would be as likely to be asked again
    subscriber.loop_stop()
    wait_until("a program over HTTP takes it", taken_over_http, seconds=2 * SECONDS)
    wait_until("nothing is left", line.edge.drained, seconds=SECONDS)


def test_a_message_its_subscriber_dies_of_takes_no_other_along(line: Line) -> None:
    """The subscriber ends its connection at one message of a batch, each time; the agent is killed between."""
    done: set[int] = set()
    deaths: list[int] = []
    kills: list[bool] = []

    async def live(client_id: str) -> None:
        async with aiomqtt.Client("127.0.0.1", line.port, identifier=client_id) as client:
            client._client.manual_ack_set(True)
            await client.subscribe("fairlead/filter/inputs/in", qos=1)
            held: list[Any] = []
            async for message in client.messages:
                held.append(message)
                if message.payload == b"13":
                    deaths.append(len(held))
                    raise ConnectionError  # with everything it holds
                if not deaths:
                    continue  # a batch in hand, not acknowledged
                for each in held:
                    client._client.ack(each.mid, each.qos)
                    done.add(int(each.payload))
                held.clear()
                if len(done) == 29:
                    return

    line.edge.publish([{"source": "/messages/modules/producer", "body": n} for n in range(30)])
    until = time.monotonic() + SECONDS
    while len(done) < 29 and time.monotonic() < until:
        with contextlib.suppress(ConnectionError, aiomqtt.MqttError, TimeoutError):
            asyncio.run(asyncio.wait_for(live("filter"), 10))
        if len(deaths) >= 2 and not kills:
            kills.append(True)
            line.edge.start_again()  # kill -9
    assert done == set(range(30)) - {13}
    assert deaths[0] == 14 and set(deaths[1:]) == {1} and kills


@pytest.mark.parametrize("protocol", [paho.MQTTv311, paho.MQTTv5])
def test_messages_without_room_hold_up_no_neighbour(tmp_path: Path, protocol: int) -> None:
    """Two clients whose messages are larger than the room left: everybody else is acknowledged meanwhile."""
    port = free_ports(1)[0]
    settings = f'[mqtt]\nlisten = "127.0.0.1:{port}"'
    with (
        CountingHub(routes=ROUTES) as hub,
        EdgeProgram(tmp_path, hub.port, settings=settings, max_bytes=1 << 20) as edge,
    ):
        edge.await_routes()
        line = Line(hub, edge, port)
        for _ in range(9):  # nobody takes these
            edge.publish([{"source": "/messages/modules/producer", "body": "x" * 64_000}])
        big = [connected(line, line.client(protocol, f"big-{number}")) for number in range(2)]
        waiting = [client.publish("fairlead/producer/o", json.dumps("y" * 250_000), qos=1) for client in big]
        neighbours = [connected(line, line.client(protocol, f"small-{number}")) for number in range(3)]
        began = time.monotonic()
        for n in range(100):
            sent = [client.publish("fairlead/producer/o", str(n), qos=1) for client in neighbours]
            for each in sent:
                each.wait_for_publish(SECONDS)
                assert each.is_published()
        assert not any(each.is_published() for each in waiting), "there was room: the test shows nothing"
        assert time.monotonic() - began < PATIENCE_SECONDS
        for client in (*big, *neighbours):
            client.disconnect()
            client.loop_stop()
