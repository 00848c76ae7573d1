"""What the link's connections carry, one after the other."""

from __future__ import annotations

import socket
from collections import Counter

import pytest

from fairlead_edge.io import line_meter
from fairlead_edge.io.line_meter import FRAME_BYTES, Carried, LineMeter


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
    return here, there


def test_connections_add_up_also_when_they_were_closed_before_the_last_look() -> None:
    meter = LineMeter()
    for number in (1, 2):
        here, there = _pair()
        meter.watch(here)
        here.sendall(bytes(1000))
        there.recv(1000, socket.MSG_WAITALL)
        here.close()
        meter.end()
        there.close()
        assert meter.carried().up == number * 1000
    assert meter.carried().headers > 0


def test_the_copy_keeps_no_connection_open() -> None:
    meter = LineMeter()
    here, there = _pair()
    meter.watch(here)
    here.close()
    meter.end()
    assert there.recv(1) == b""
    there.close()


def test_frames_are_counted_where_the_kernel_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_meter, "read", lambda connection: None)
    meter, counters = LineMeter(), Counter[str]()
    meter.without_kernel(counters)
    for number in (1, 2):
        here, there = _pair()
        meter.watch(here)
        counters.update(bytes_sent=100, bytes_received=30, frames_sent=2, frames_received=1)
        assert meter.carried() == Carried(100 * number, 30 * number, headers=3 * FRAME_BYTES * number)
        meter.end()
        here.close()
        there.close()
