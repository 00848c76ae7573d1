"""A TCP proxy whose packets get lost: while it is dark nothing is forwarded and nothing is closed, either way.

async with DarkLink(hub.link_port, bytes_per_second=20_000) as link:
    node = SimulatedNode("edge-1", link.url)
    link.is_dark = True       # half open: both ends consider the connection alive until their timeouts
    link.is_dark = False      # data in transit arrives late, as after a TCP retransmission
"""

from __future__ import annotations

import asyncio
import contextlib

CHUNK_BYTES = 4096


class DarkLink:
    """Listens on a port of its own; ``bytes_per_second`` slows down what goes to the node (None: not at all)."""

    def __init__(self, target_port: int, *, bytes_per_second: float | None = None) -> None:
        self._target = target_port
        self._rate = bytes_per_second
        self._light = asyncio.Event()
        self._light.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    @property
    def is_dark(self) -> bool:
        return not self._light.is_set()

    @is_dark.setter
    def is_dark(self, dark: bool) -> None:
        if dark:
            self._light.clear()
        else:
            self._light.set()

    async def __aenter__(self) -> DarkLink:
        # A small buffer for what goes out, or the slowness would hide in the kernel's memory.
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=CHUNK_BYTES)
        self.url = f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._light.wait()
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target, limit=CHUNK_BYTES)
        except OSError:
            writer.close()  # the hub is away just now
            return
        for source, target, rate in ((reader, up_writer, None), (up_reader, writer, self._rate)):
            task = asyncio.create_task(self._pump(source, target, rate))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, rate: float | None) -> None:
        try:
            with contextlib.suppress(OSError):
                while chunk := await source.read(CHUNK_BYTES):
                    await self._light.wait()
                    target.write(chunk)
                    await target.drain()
                    if rate is not None:
                        await asyncio.sleep(len(chunk) / rate)
            await self._light.wait()
        finally:
            target.close()
