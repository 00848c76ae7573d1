"""A connection and its socket: when it is read, what it writes, how it ends; the socket is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, cast

from tests.support.edges import mqtt_packets as client

from fairlead_edge.io.mqtt import connection as connections
from fairlead_edge.io.mqtt.connection import Connection
from fairlead_edge.mqtt.client import ClientAdmission
from fairlead_edge.mqtt.limits import SessionLimits
from fairlead_edge.mqtt.packets import Connect
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_edge.mqtt.session import Acknowledged, Opening, PublishOutcome, ReceivedPublish, Subscribed
from fairlead_edge.mqtt.status import Counters
from fairlead_edge.outbox.authorship import Author


class Transport:
    def __init__(self, peercert: Any = None) -> None:
        self.written, self.is_reading, self.is_closed, self.is_aborted = b"", True, False, False
        self._peercert = peercert

    def write(self, content: bytes) -> None:
        self.written += content

    def get_extra_info(self, name: str) -> Any:
        return self._peercert

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True


class Services:
    def __init__(self) -> None:
        self.limits = SessionLimits(node="edge-1", packet_bytes_max=1000, session_seconds_max=60)
        self.counters = Counters()
        self.received: list[ReceivedPublish] = []
        self.overs = 0
        self.overloaded = False
        self.certificates: list[str | None] = []

    def opened(self, connection: Connection) -> None:
        pass

    def identify(self, connect: Connect, certificate: str | None) -> Opening:
        self.certificates.append(certificate)
        found = ClientAdmission("edge-1", False).admit(connect, certificate, "new")
        return Opening(client=found, author=Author(), clean=True, expiry_seconds=0)

    def open(self, connection: Connection, opening: Opening) -> Sequence[Subscribed] | None:
        return None

    def add(self, connection: Connection, received: Sequence[ReceivedPublish]) -> None:
        self.received += received

    def begin(self, connection: Connection, subscribed: Subscribed) -> None:
        pass

    def end(self, connection: Connection, filter: str) -> None:
        pass

    def acknowledge(self, acknowledged: Iterable[Acknowledged]) -> None:
        pass

    def over(self, connection: Connection) -> None:
        self.overs += 1

    def is_overloaded(self) -> bool:
        return self.overloaded


class Bench:
    def __init__(self, peercert: Any = None) -> None:
        self.time, self.services, self.transport = 0.0, Services(), Transport(peercert)
        self.connection = Connection(self.services, lambda: self.time)
        self.connection.connection_made(cast(asyncio.BaseTransport, self.transport))

    def say(self, *packets: bytes) -> None:
        self.connection.data_received(b"".join(packets))

    def answers(self) -> list[int]:
        found, _ = client.split(self.transport.written)
        return [each.kind for each in found]


async def test_from_connect_to_puback() -> None:
    bench = Bench()
    bench.say(client.connect(), client.publish("fairlead/m/o"))
    assert bench.answers() == [client.CONNACK]
    bench.connection.stored([PublishOutcome(each.message) for each in bench.services.received])
    assert bench.answers() == [client.CONNACK, client.PUBACK]
    bench.say(client.BYE)
    assert bench.transport.is_closed
    bench.connection.connection_lost(None)
    assert (bench.services.overs, bench.services.counters.closed) == (1, {"disconnect": 1})


async def test_it_is_not_read_while_it_does_not_read_or_too_much_waits() -> None:
    bench = Bench()
    bench.say(client.connect())
    bench.connection.pause_writing()
    assert not bench.transport.is_reading
    assert bench.connection.room == 0
    bench.services.overloaded = True
    bench.connection.resume_writing()
    assert not bench.transport.is_reading
    bench.services.overloaded = False
    bench.connection.update_reading()
    assert bench.transport.is_reading
    assert bench.connection.room > 0


async def test_one_that_reads_nothing_for_long_is_closed() -> None:
    bench = Bench()
    bench.say(client.connect())
    bench.connection.pause_writing()
    bench.connection.tick(connections.STALLED_SECONDS_MAX)
    assert not bench.transport.is_aborted
    bench.connection.tick(connections.STALLED_SECONDS_MAX + 1)
    assert bench.transport.is_aborted
    assert bench.services.counters.closed == {"does_not_read": 1}


async def test_silence_while_nothing_is_read_is_not_its_fault() -> None:
    bench = Bench()
    bench.say(client.connect(keep_alive=10))
    bench.services.overloaded = True
    bench.connection.tick(100.0)
    bench.services.overloaded = False
    bench.connection.tick(110.0)
    assert not bench.transport.is_closed
    bench.connection.tick(116.0)
    assert bench.transport.is_closed


async def test_answers_for_one_that_is_gone_are_dropped() -> None:
    bench = Bench()
    bench.say(client.connect(), client.publish("fairlead/m/o"))
    bench.connection.connection_lost(ConnectionResetError())
    bench.connection.stored([PublishOutcome(each.message) for each in bench.services.received])
    bench.connection.refuse(MqttRefused(Code.SERVER_BUSY, "late"))
    assert bench.answers() == [client.CONNACK]
    assert bench.services.overs == 1


async def test_who_waits_for_room_gets_it_with_an_acknowledgement() -> None:
    bench = Bench()
    bench.say(client.connect(level=5, more=b"\x21\0\1"))
    assert await bench.connection.ready() == 1
    bench.connection.session.delivered._unacknowledged[1] = ("e", "i")
    waiting = asyncio.create_task(bench.connection.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    bench.say(client.puback(1, level=5))
    assert await waiting == 1


async def test_the_name_in_the_certificate_is_whose_connection_it_is() -> None:
    def shown(*roles: str) -> dict[str, Any]:
        names = [("URI", f"spiffe://home/{role}/camera") for role in roles]
        return {"subject": ((("commonName", "camera"),),), "subjectAltName": tuple(names)}

    for peercert, expected in (
        (None, None),
        (shown(), "camera"),
        (shown("module"), "camera"),
        (shown("device"), "camera"),
    ):
        bench = Bench(peercert)
        bench.say(client.connect("camera"))
        assert bench.services.certificates == [expected]
        assert bench.answers() == [client.CONNACK]
    for role in ("node", "hub"):
        bench = Bench(shown(role))
        bench.say(client.connect("camera"))
        assert bench.services.certificates == [""]
        assert bench.transport.is_closed
