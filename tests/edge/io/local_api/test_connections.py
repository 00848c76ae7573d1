"""Which connection makes way, by what each is doing."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from fairlead_edge.io.local_api import connections
from fairlead_edge.io.local_api.connections import Connections


class Transport:
    def __init__(self, unsent: int = 0) -> None:
        self.unsent = unsent

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return False


class Protocol:
    """As much of one as is looked at."""

    def __init__(self, unsent: int = 0) -> None:
        self.transport = Transport(unsent)


def protocols(count: int) -> list[Any]:
    return [Protocol() for _ in range(count)]


def test_the_one_idle_for_longest_goes_first() -> None:
    """Each only once: it is closing already."""
    known, [first, second] = Connections(), protocols(2)
    known.opened(second, 1.0)
    known.opened(first, 2.0)
    assert [known.victim([first, second], 9.0) for _ in range(3)] == [second, first, None]


def test_slow_readers_make_way_after_idle_connections() -> None:
    """And one that only just began to read comes last."""
    known, [idle, slow, reading] = Connections(), protocols(3)
    known.opened(slow, 1.0)
    known.opened(idle, 5.0)
    known.opened(reading, 8.5)
    slow.transport.unsent = reading.transport.unsent = 1000
    everyone = [reading, slow, idle]
    assert [known.victim(everyone, 9.0) for _ in range(4)] == [idle, slow, reading, None]


def test_a_client_that_reads_nothing_is_stalled_and_a_slow_one_is_not() -> None:
    """By what was read since the last look; what is closed is forgotten."""
    known, [deaf, slow, quick] = Connections(), protocols(3)
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
