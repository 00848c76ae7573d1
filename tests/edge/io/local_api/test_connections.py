"""Which connection makes way, by what each is doing."""

from __future__ import annotations

import asyncio
import json
import select
import socket
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.edges.edge_line import CountingHub, EdgeProgram, telemetry
from tests.support.edges.silent_readers import LIST, fill, rss_mib, silent_readers
from tests.support.processes import wait_until

from fairlead_edge.io.local_api import connections
from fairlead_edge.io.local_api.connections import LocalConnections


class Transport:
    def __init__(self, unsent: int = 0) -> None:
        self.unsent = unsent

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        self.unsent = 0


class Protocol:
    """As much of one as is looked at."""

    def __init__(self, unsent: int = 0) -> None:
        self.transport = Transport(unsent)


def protocols(count: int) -> list[Any]:
    return [Protocol() for _ in range(count)]


def test_the_one_idle_for_longest_goes_first() -> None:
    known, [first, second] = LocalConnections(), protocols(2)
    known.opened(second, 1.0)
    known.opened(first, 2.0)
    assert [known.expendable([first, second], 9.0) for _ in range(3)] == [second, first, None]


def test_slow_readers_make_way_after_idle_connections() -> None:
    known, [idle, slow, reading] = LocalConnections(), protocols(3)
    known.opened(slow, 1.0)
    known.opened(idle, 5.0)
    known.opened(reading, 8.5)
    slow.transport.unsent = reading.transport.unsent = 1000
    everyone = [reading, slow, idle]
    assert [known.expendable(everyone, 9.0) for _ in range(4)] == [idle, slow, reading, None]


def test_a_client_that_reads_nothing_is_stalled_and_a_slow_one_is_not() -> None:
    known, [deaf, slow, quick] = LocalConnections(), protocols(3)
    everyone = [deaf, slow, quick]
    for protocol in everyone:
        known.opened(protocol, 0.0)
        protocol.transport.unsent = 10 * connections.PROGRESS_BYTES
    found: list[web.RequestHandler] = []
    for now in range(0, 50, 5):
        found += known.stalled(everyone, float(now))
        slow.transport.unsent -= connections.PROGRESS_BYTES
        quick.transport.unsent = 0
    assert set(found) == {deaf}
    assert known.stalled([], 60.0) == [] and not known.is_silent(deaf)


def test_over_the_budget_the_slowest_reader_is_closed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNSENT_BYTES_MAX", 300_000)
    known, [writer, probe, quick, slow] = LocalConnections(), protocols(4)
    for protocol in (writer, probe, quick, slow):
        known.opened(protocol, 1.0)
        protocol.transport.unsent = 90_000
    probe.transport.unsent = connections.SMALL_ANSWER_BYTES
    known.progressed(quick, 2.0)
    assert known.unsent == 270_000 + connections.SMALL_ANSWER_BYTES
    known.make_room(connections.SMALL_ANSWER_BYTES, writer)
    assert not known.closed
    known.make_room(50_000, writer)
    assert [each.transport.unsent for each in (writer, probe, quick, slow)] == [90_000, 16 * 1024, 90_000, 0]
    known.make_room(300_000, writer)
    assert [each.transport.unsent for each in (writer, probe, quick, slow)] == [90_000, 16 * 1024, 0, 0]
    assert known.closed == {"budget": 2}


def test_what_a_stream_has_still_to_write_counts() -> None:
    """It is held all the same; and a client that waits for much of it is a slow one."""
    known, [stream, writer] = LocalConnections(), protocols(2)
    known.opened(stream, 1.0)
    known.opened(writer, 1.0)
    known.hold(stream, connections.UNSENT_BYTES_MAX)
    assert known.unsent == connections.UNSENT_BYTES_MAX
    known.make_room(20_000, writer)
    assert known.closed == {"budget": 1}
    known.hold(stream, 0)
    assert known.unsent == 0


@pytest.mark.process
async def test_readers_that_do_not_read_cost_little_and_delay_no_other(tmp_path: Path) -> None:
    """Lists and watches of a real agent that holds 16 MiB; publishing and probes go on meanwhile."""
    count = await fill(tmp_path / "data", 16 * 1024 * 1024)

    def attacked(edge: EdgeProgram) -> float:
        edge.await_routes()
        before, peak = rss_mib(edge.pid), 0.0
        with silent_readers(edge.port, 60) as clients:

            def all_answered() -> bool:
                nonlocal peak
                assert edge.get("/healthz") and edge.get("/readyz")
                edge.publish([telemetry(1, {})])
                peak = max(peak, rss_mib(edge.pid))
                return all(_has_answer(client) for client in clients)

            wait_until("every answer begins", all_answered, seconds=60, every=0.02)
            for _ in range(20):
                all_answered()
        found = json.loads(edge.get(LIST))
        assert len(found["items"]) == count
        return peak - before

    with CountingHub() as hub, EdgeProgram(tmp_path, hub.port) as edge:
        assert await asyncio.to_thread(attacked, edge) < 60


def _has_answer(client: socket.socket) -> bool:
    return bool(select.select([client], [], [], 0)[0])
