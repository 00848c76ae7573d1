"""What the link's connections carry, one after the other."""

from __future__ import annotations

import asyncio
import socket
import sys
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


# ---- the kernel's own count of a connection --------------------------------------------------------------------------


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux counts")


async def test_bytes_each_way_and_headers_of_packets() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3000)
        writer.write(bytes(500))
        await writer.drain()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(bytes(3000))
        await reader.readexactly(500)
        found = line_meter.read(_plain(writer))
        assert found is not None and (found.up, found.down) == (3000, 500)
        assert found.headers >= 4 * 52 and found.total == 3500 + found.again + found.headers
        writer.close()


def _plain(writer: asyncio.StreamWriter) -> socket.socket:
    return socket.socket(fileno=writer.get_extra_info("socket").dup().detach())
