"""A TCP proxy with the rate of a slow link: a number of bytes a second in each direction, and a small buffer.

async with SlowLink(hub.link_port, bytes_per_second=16_000, delay_seconds=0.1) as link:
    agent = EdgeAgent(folder, link.url)
    link.up_bytes            # bytes from the node so far, including headers
    link.cut()               # every connection breaks; new ones are accepted
    link.close(), await link.open()    # away, and back

All connections share the rate, as with a modem.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

CHUNK_BYTES = 1024
BUFFER_BYTES = 8 * 1024
"""Of the kernel, on each side: otherwise the slowness would hide in its memory."""


class _Lane:
    """One direction of the link: bytes wait for their turn."""

    def __init__(self, rate: float, delay: float) -> None:
        self.rate, self.delay = rate, delay
        self._free_at = 0.0

    async def carry(self, size: int) -> float:
        """Wait until the bytes are sent; returns the time at which they arrive."""
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + size / self.rate
        await asyncio.sleep(max(0.0, self._free_at - loop.time()))
        return loop.time() + self.delay


class SlowLink:
    """Listens on a port of its own."""

    def __init__(self, target_port: int, *, bytes_per_second: float, delay_seconds: float = 0.0) -> None:
        self._target = target_port
        self._up = _Lane(bytes_per_second, delay_seconds)
        self._down = _Lane(bytes_per_second, delay_seconds)
        self._tasks: set[asyncio.Task[None]] = set()
        self.up_bytes = 0
        self.down_bytes = 0
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def cut(self) -> None:
        for task in self._tasks:
            task.cancel()

    def close(self) -> None:
        """Break every connection and accept no new one."""
        self._server.close()
        self.cut()

    async def open(self) -> None:
        """Listen, on the same port as before."""
        listening = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._server = await asyncio.start_server(self._accept, sock=listening, limit=CHUNK_BYTES)
        self.port = listening.getsockname()[1]

    async def __aenter__(self) -> SlowLink:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target, limit=CHUNK_BYTES)
        except OSError:
            writer.close()
            return
        self.connections += 1
        for source, target, lane, note in (
            (reader, far_writer, self._up, self._count),
            (far_reader, writer, self._down, self._count_down),
        ):
            task = asyncio.create_task(self._pump(source, target, lane, note))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _count(self, size: int) -> None:
        self.up_bytes += size

    def _count_down(self, size: int) -> None:
        self.down_bytes += size

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, lane: _Lane, note: Callable[[int], None]
    ) -> None:
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        deliver = asyncio.create_task(self._deliver(late, target))
        try:
            with contextlib.suppress(OSError):
                while chunk := await source.read(CHUNK_BYTES):
                    note(len(chunk))
                    late.put_nowait((await lane.carry(len(chunk)), chunk))
            late.put_nowait((0.0, b""))
            await deliver
        finally:
            deliver.cancel()
            target.close()

    async def _deliver(self, late: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while True:
                due, chunk = await late.get()
                if not chunk:
                    return
                await asyncio.sleep(max(0.0, due - loop.time()))
                target.write(chunk)
                await target.drain()
