"""A byte-for-byte proxy that loses a response when a test wants it: the request arrives, the response does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class FlakyProxy:
    """`lose(n)`: lose the next n responses; the client's connection is closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lose = 0
        self._containing = b""
        self._open: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None] | None] = set()
        self.lost = 0
        self.url = ""

    def lose(self, count: int, *, containing: bytes = b"") -> None:
        """Lose responses to requests that contain these bytes in their first piece."""
        self._lose, self._containing = count, containing

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.current_task())
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:  # the service is down, so the caller's connection ends too
            writer.close()
            return
        losing = asyncio.Event()

        async def forth() -> None:
            while piece := await reader.read(1 << 16):
                if self._lose and self._containing in piece:
                    self._lose -= 1
                    losing.set()
                back.write(piece)
                await back.drain()

        async def home() -> None:
            while piece := await there.read(1 << 16):
                if losing.is_set():
                    self.lost += 1
                    return
                writer.write(piece)
                await writer.drain()

        tasks = {asyncio.create_task(forth()), asyncio.create_task(home())}
        self._open |= tasks
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._open -= tasks
        for end in (writer, back):
            with suppress(OSError):
                end.close()

    async def close(self) -> None:
        """Close all connections."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*(task for task in self._serving if task is not None))


@asynccontextmanager
async def flaky(port: int) -> AsyncIterator[FlakyProxy]:
    """A proxy in front of a service on this machine."""
    proxy = FlakyProxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
