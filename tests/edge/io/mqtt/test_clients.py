"""Takeover, room for the next client, and what remains of those who went."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fairlead_edge.io.mqtt import clients as clients_io
from fairlead_edge.io.mqtt.clients import Clients
from fairlead_edge.io.mqtt.connection import Connection
from fairlead_edge.mqtt.client import MqttClient
from fairlead_edge.mqtt.packets import PublishPacket, Will
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_edge.mqtt.session import Opening, Subscribed
from fairlead_edge.mqtt.topics import InputFilter
from fairlead_edge.mqtt.wills import AuthoredWill
from fairlead_edge.outbox.authorship import Author

SUBSCRIBED = Subscribed(InputFilter("f", "m", "i", False), 1)


class FakeSession:
    def __init__(self, last_activity_at: float) -> None:
        self.opening: Opening | None = None
        self.will: Will | None = None
        self.subscriptions = {"f": SUBSCRIBED}
        self.expiry_seconds = 60
        self.last_activity_at = last_activity_at
        self.unacknowledged = 0


class FakeConnection:
    def __init__(self, bench: Bench, last_activity_at: float = 0.0) -> None:
        self.session = FakeSession(last_activity_at)
        self._bench = bench
        self.ended = ""

    def refuse(self, refused: MqttRefused) -> None:
        self.ended = refused.code.label
        self._bench.clients.over(cast(Connection, self))

    def abort(self, reason: str) -> None:
        self.ended = reason
        self._bench.clients.over(cast(Connection, self))

    def tick(self, now: float) -> None:
        pass


class Bench:
    def __init__(self, connections_max: int = 3) -> None:
        self.time, self.wills = 0.0, list[AuthoredWill]()
        self.clients = Clients(connections_max=connections_max, clock=lambda: self.time, publish=self.wills.append)

    def come(
        self, module: str, id: str, *, clean: bool = False, last_activity_at: float = 0.0
    ) -> tuple[FakeConnection, Any]:
        connection = FakeConnection(self, last_activity_at)
        self.clients.opened(cast(Connection, connection))
        opening = Opening(client=MqttClient(module, id), author=Author(), clean=clean, expiry_seconds=60)
        kept = self.clients.open(cast(Connection, connection), opening)
        connection.session.opening = opening
        return connection, kept


def test_an_identifier_belongs_to_the_latest_connection_of_its_module() -> None:
    bench = Bench()
    first, _ = bench.come("m", "a")
    other, _ = bench.come("n", "a")
    _, kept = bench.come("m", "a")
    assert (first.ended, other.ended) == ("session_taken_over", "")
    assert kept == (SUBSCRIBED,)
    assert bench.clients.open_now == 2


def test_a_clean_start_keeps_nothing() -> None:
    bench = Bench()
    bench.come("m", "a")
    assert bench.come("m", "a", clean=True)[1] is None


def test_at_the_limit_the_silent_client_of_the_module_with_most_is_closed() -> None:
    bench = Bench()
    lonely, _ = bench.come("quiet", "a", last_activity_at=-100.0)
    one, _ = bench.come("greedy", "a", last_activity_at=5.0)
    two, _ = bench.come("greedy", "b", last_activity_at=1.0)
    bench.come("new", "a")
    assert (lonely.ended, one.ended, two.ended) == ("", "", "quota_exceeded")
    assert bench.clients.open_now == 3


def test_one_whose_messages_wait_is_never_sent_away() -> None:
    bench = Bench(connections_max=1)
    busy, _ = bench.come("m", "a")
    busy.session.unacknowledged = 1
    with pytest.raises(MqttRefused) as caught:
        bench.come("m", "b")
    assert caught.value.code is Code.QUOTA_EXCEEDED
    assert busy.ended == ""


def test_connections_that_say_nothing_make_way_for_each_other_alone() -> None:
    bench = Bench()
    open_one, _ = bench.come("m", "a")
    silent = [FakeConnection(bench) for _ in range(clients_io.OPENING_MAX + 2)]
    for each in silent:
        bench.clients.opened(cast(Connection, each))
    assert [each.ended for each in silent[:3]] == ["no_room", "no_room", ""]
    assert open_one.ended == ""


def test_a_will_comes_with_the_end_or_after_its_delay() -> None:
    bench = Bench()
    connection, _ = bench.come("m", "a")
    connection.session.will = Will(PublishPacket("t", b"gone"), 0)
    bench.clients.over(cast(Connection, connection))
    bench.clients.over(cast(Connection, connection))
    assert [each.message.payload for each in bench.wills] == [b"gone"]
    connection, _ = bench.come("m", "a")
    connection.session.will = Will(PublishPacket("t", b"later"), 10)
    bench.clients.over(cast(Connection, connection))
    bench.clients.tick()
    assert len(bench.wills) == 1
    bench.time = 10.0
    bench.clients.tick()
    assert [each.message.payload for each in bench.wills] == [b"gone", b"later"]
