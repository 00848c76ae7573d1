"""The real agent and clients that do what they should not: over TLS, without rights, too much, too slowly."""

from __future__ import annotations

import json
import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from tests.support.edges import mqtt_packets as client
from tests.support.edges.edge_line import CountingHub, EdgeProgram
from tests.support.edges.mqtt_packets import RawClient
from tests.support.joining.pki import Authority, Pair
from tests.support.processes import free_ports, wait_until

from fairlead_edge import module_tokens

pytestmark = pytest.mark.process

SECONDS = 60.0
ROUTES = {
    "schemaVersion": "1.1.0",
    "routes": {"up": "FROM /messages/* INTO $upstream"},
    "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
}


class Secured:
    """An agent whose MQTT needs a certificate or a token; its link is plain, for that is not what is tried."""

    def __init__(self, folder: Path, hub: CountingHub) -> None:
        self.folder = folder
        self.authority = Authority(folder / "authority")
        self.stranger = Authority(folder / "stranger", "another authority")
        server = self.authority.issue("edge-1", hosts=("localhost", "127.0.0.1"))
        self.ca = folder / "clients.pem"
        self.ca.write_bytes(self.authority.certificate.read_bytes())
        self.tokens = folder / "tokens"
        self.tokens.write_text(module_tokens.line("filter", "filters-token") + "\n")
        self.tokens.chmod(0o600)
        self.port = free_ports(1)[0]
        self.edge = EdgeProgram(
            folder / "edge",
            hub.port,
            settings=f'[mqtt]\nlisten = "127.0.0.1:{self.port}"\ntls_cert = "{server.certificate}"\n'
            f'tls_key = "{server.key}"\ntls_ca = "{self.ca}"\ntokens_file = "{self.tokens}"\nconnections_max = 8',
        )

    def connect(self, pair: Pair | None, content: bytes) -> client.Read | None:
        """The answer to a CONNECT; None: the connection was closed."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.check_hostname = False
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        try:
            peer = context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS))
        except (OSError, ssl.SSLError):
            return None
        with peer, suppress(OSError):
            peer.sendall(content)
            found, _ = client.split(peer.recv(4096))
            return found[0] if found else None
        return None


@pytest.fixture(scope="module")
def hub() -> Iterator[CountingHub]:
    with CountingHub(routes=ROUTES) as running:
        yield running


@pytest.fixture(scope="module")
def secured(hub: CountingHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    found = Secured(tmp_path_factory.mktemp("secured"), hub)
    with found.edge as edge:
        edge.await_routes()
        yield found


@pytest.fixture(scope="module")
def plain(hub: CountingHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EdgeProgram, int]]:
    port = free_ports(1)[0]
    settings = f'[mqtt]\nlisten = "127.0.0.1:{port}"\nconnections_max = 4'
    with EdgeProgram(tmp_path_factory.mktemp("plain"), hub.port, settings=settings) as edge:
        edge.await_routes()
        yield edge, port


def test_a_certificate_names_the_module(secured: Secured) -> None:
    pair = secured.authority.issue("camera")
    assert secured.connect(pair, client.connect("camera")) == (client.CONNACK, 0, b"\0\0")
    assert secured.connect(pair, client.connect("filter")) == (client.CONNACK, 0, b"\0\2")
    assert secured.connect(secured.stranger.issue("camera"), client.connect("camera")) is None
    node = secured.authority.issue("edge-2", uri="spiffe://home/node/edge-2")
    assert secured.connect(node, client.connect("edge-2")) == (client.CONNACK, 0, b"\0\5")


def test_a_token_is_a_password(secured: Secured) -> None:
    def answer(password: bytes | None) -> client.Read | None:
        return secured.connect(None, client.connect("any", user="filter", password=password))

    assert answer(b"filters-token") == (client.CONNACK, 0, b"\0\0")
    assert answer(b"wrong") == (client.CONNACK, 0, b"\0\4")
    assert answer(None) == (client.CONNACK, 0, b"\0\4")
    with secured.tokens.open("a") as file:
        file.write(module_tokens.line("camera", "new-token") + "\n")
    wait_until("a new token counts", lambda: answer(b"new-token") == (client.CONNACK, 0, b"\0\0"), seconds=SECONDS)


@pytest.mark.verify
def test_an_authority_that_was_taken_out_counts_no_more(secured: Secured) -> None:
    other = Authority(secured.folder / "second", "a second authority")
    pair, first = other.issue("camera"), secured.authority.issue("camera")
    both = secured.authority.certificate.read_bytes() + other.certificate.read_bytes()
    taken = (client.CONNACK, 0, b"\0\0")
    secured.ca.write_bytes(both)
    wait_until(
        "a new authority counts", lambda: secured.connect(pair, client.connect("camera")) == taken, seconds=SECONDS
    )
    assert secured.connect(first, client.connect("camera")) == taken
    secured.ca.write_bytes(secured.authority.certificate.read_bytes())
    wait_until("and then no more", lambda: secured.connect(pair, client.connect("camera")) is None, seconds=SECONDS)
    assert secured.connect(first, client.connect("camera")) == taken


def test_paho_over_mutual_tls_publishes_as_its_module_alone(secured: Secured, hub: CountingHub) -> None:
    pair = secured.authority.issue("camera")
    codes: list[Any] = []
    peer = paho.Client(CallbackAPIVersion.VERSION2, client_id="camera", protocol=paho.MQTTv5)
    peer.on_publish = lambda client, data, mid, code, properties: codes.append(code.value)
    peer.tls_set(str(secured.authority.certificate), str(pair.certificate), str(pair.key))
    peer.connect("localhost", secured.port)
    peer.loop_start()
    peer.publish("fairlead/camera/frames", b'{"over":"tls"}', qos=1).wait_for_publish(SECONDS)
    peer.publish("fairlead/filter/frames", b'{"over":"reach"}', qos=1).wait_for_publish(SECONDS)
    wait_until("both are answered", lambda: len(codes) == 2, seconds=SECONDS)
    assert codes == [0, 0x87]
    peer.disconnect()
    peer.loop_stop()

    def stamped() -> bool:
        found = [each for each in hub.messages() if b'"tls"' in bytes(each.body)]
        return [each.system_properties["connectionModuleId"] for each in found] == ["camera"]

    wait_until("it is upstream with its stamp", stamped, seconds=SECONDS)


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
        b"\x10\xff\xff\xff\x7f" + b"x" * 100_000,
        b"\x10\x0c\x00\x04MQTT\x04\xff\x00\x00\x00\x00",
        b"\xff" * 1000,
        b"\0",
        client.PINGREQ,
    ],
)
def test_a_connection_without_mqtt_is_closed_and_costs_nothing(plain: tuple[EdgeProgram, int], content: bytes) -> None:
    peer = RawClient(plain[1])
    with suppress(OSError):
        peer.send(content)
    assert peer.until_closed() == []


def test_takeover(plain: tuple[EdgeProgram, int]) -> None:
    first, second = RawClient(plain[1]), RawClient(plain[1])
    for each in (first, second):
        each.send(client.connect("same", level=5))
        answer = each.read()
        assert answer is not None
        assert answer.kind == client.CONNACK
    [goodbye] = first.until_closed()
    assert (goodbye.kind, goodbye.body[0]) == (client.DISCONNECT, 0x8E)
    second.send(client.PINGREQ)
    assert second.read() == (client.PINGRESP, 0, b"")
    second.close()


def test_one_more_than_there_is_room_for_sends_the_silent_one_away(plain: tuple[EdgeProgram, int]) -> None:
    peers = [RawClient(plain[1]) for _ in range(5)]
    for number, each in enumerate(peers):
        each.send(client.connect(f"crowd-{number}", level=5))
        answer = each.read()
        assert answer is not None
        assert answer.body[1] == 0
    [goodbye] = peers[0].until_closed()
    assert (goodbye.kind, goodbye.body[0]) == (client.DISCONNECT, 0x97)
    peers[4].send(client.PINGREQ)
    assert peers[4].read() == (client.PINGRESP, 0, b"")
    for each in peers:
        each.close()


@pytest.mark.verify
def test_a_flood_that_does_not_read_its_answers_is_stopped(plain: tuple[EdgeProgram, int]) -> None:
    peer = RawClient(plain[1], seconds=2.0, receive_bytes=4096)
    peer.send(client.connect("flood", level=5))
    peer.read()
    sent = 0
    with suppress(OSError):  # the agent reads no more, so that at last nothing can be sent
        while sent < 200 << 20:
            peer.send(client.unsubscribe(["x"] * 100, level=5) * 50)
            sent += 50 * 300
    assert sent < 200 << 20
    other = RawClient(plain[1])
    other.send(client.connect("calm"), client.publish("fairlead/calm/o", b"1", qos=1))
    assert [other.read(), other.read()] == [(client.CONNACK, 0, b"\0\0"), (client.PUBACK, 0, b"\0\1")]
    for each in (peer, other):
        each.close()


@pytest.mark.verify
def test_messages_taken_before_a_stop_are_acknowledged_or_repeated(hub: CountingHub, tmp_path: Path) -> None:
    """SIGTERM: MQTT 5 clients are told, nothing that was acknowledged is lost, and no will is published."""
    port = free_ports(1)[0]
    with EdgeProgram(tmp_path, hub.port, settings=f'[mqtt]\nlisten = "127.0.0.1:{port}"') as edge:
        edge.await_routes()
        peer = RawClient(port)
        peer.send(client.connect("stop", level=5, will=("fairlead/stop/gone", b'"gone"')))
        peer.read()
        peer.send(*(client.publish("fairlead/stop/o", b'{"s":%d}' % n, level=5, id=n) for n in range(1, 200)))
        first = peer.read()
        assert first is not None
        edge.stop()
        answers = [first, *peer.until_closed()]
        assert (answers[-1].kind, answers[-1].body[0]) == (client.DISCONNECT, 0x8B)
        acknowledged = {each.id for each in answers if each.kind == client.PUBACK}
        edge.start()

        def arrived() -> set[int]:
            bodies = [json.loads(bytes(each.body)) for each in hub.messages()]
            return {body["s"] for body in bodies if isinstance(body, dict) and "s" in body}

        wait_until("what was acknowledged is upstream", lambda: acknowledged <= arrived(), seconds=SECONDS)
        wait_until("all of it went", edge.drained, seconds=SECONDS)
    assert not any(bytes(each.body) == b'"gone"' for each in hub.messages())


@pytest.mark.verify
def test_without_routes_nothing_is_acknowledged(tmp_path: Path) -> None:
    """The hub was never reached: the message waits for its PUBACK, and is stored when routes come."""
    port, hub_port = free_ports(2)
    with EdgeProgram(tmp_path, hub_port, settings=f'[mqtt]\nlisten = "127.0.0.1:{port}"'):
        peer = RawClient(port)
        peer.send(client.connect("early"), client.publish("fairlead/early/o", b'{"early":1}'), client.PINGREQ)
        assert [peer.read(), peer.read()] == [(client.CONNACK, 0, b"\0\0"), (client.PINGRESP, 0, b"")]
        with CountingHub(routes=ROUTES, port=hub_port) as hub:
            assert peer.read() == (client.PUBACK, 0, b"\0\1")
            hub.wait_for(1)
        peer.close()


@pytest.mark.verify
def test_a_full_store_acknowledges_nothing_more(tmp_path: Path) -> None:
    port, hub_port = free_ports(2)
    inward = 'FROM /messages/* INTO BrokeredEndpoint("/modules/m/inputs/i")'
    settings = f'[mqtt]\nlisten = "127.0.0.1:{port}"'
    with (
        CountingHub(routes={**ROUTES, "routes": {"in": inward}}, port=hub_port),
        EdgeProgram(tmp_path, hub_port, max_bytes=1 << 20, settings=settings) as edge,
    ):
        edge.await_routes()
        peer = RawClient(port)
        peer.send(client.connect("full", level=5))
        peer.read()
        log = tmp_path / "edge.log"
        answered = 0

        def decided() -> bool:
            return bool(select.select([peer.socket], [], [], 0)[0]) or "mqtt_waits" in log.read_text()

        for number in range(1, 20):
            peer.send(client.publish("fairlead/full/o", b"x" * 100_000, level=5, id=number))
            wait_until("it is stored, or waits", decided, seconds=SECONDS)
            if "mqtt_waits" in log.read_text():
                break
            assert peer.read() == (client.PUBACK, 0, number.to_bytes(2))
            answered = number
        assert 0 < answered < 19
        peer.send(client.PINGREQ)
        assert peer.read() == (client.PINGRESP, 0, b"")
        assert sum(queue["length"] for queue in edge.status()["queues"]) - 1 == answered  # one is of await_routes
        peer.close()
