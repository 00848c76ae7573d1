"""The kernel's own count of a connection."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from fairlead_edge.io import line_meter

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
