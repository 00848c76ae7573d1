"""The real agent spoken to by other people's MQTT clients: paho (3.1.1 and 5) and aiomqtt."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.support.edges.edge_line import CountingHub, EdgeProgram
from tests.support.processes import free_ports, wait_until

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
        return [json.loads(bytes(each.body)) for each in self.hub.stored.values()]

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
    found = [each for each in line.hub.stored.values() if b'"n":0' in bytes(each.body).replace(b" ", b"")]
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
        return [each for each in line.hub.stored.values() if all(getattr(each, k) == v for k, v in wanted.items())]

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
