"""The link of one node: a small TCP proxy in its own process.

    edge ──► 127.0.0.1:LISTEN ──proxy──► 127.0.0.1:TARGET ──► hub

Killing this process cuts the link for good; the signals CUT and MEND cut it and bring it back while the process lives
(`e2e.demo.cable` sends them). While it is cut, open connections break and new ones are refused. Run as
`python -m e2e.demo.proxy LISTEN TARGET`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

HOST = "127.0.0.1"
CHUNK_BYTES = 64 * 1024
CUT = signal.SIGUSR1
MEND = signal.SIGUSR2


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction until its end, then shut down the other side."""
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        return
    finally:
        writer.close()


class Link:
    """A link that is connected or cut."""

    def __init__(self, listen: int, target: int) -> None:
        self._listen = listen
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def mend(self) -> None:
        """Listen again on the same port."""
        if self._server is None:
            self._server = await asyncio.start_server(self._carry, HOST, self._listen)
            print(f"link {self._listen} -> {self._target}", flush=True)

    def cut(self) -> None:
        """Refuse new connections and close the open ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
            for writer in self._open:
                writer.transport.abort()
            print(f"link {self._listen} cut", flush=True)

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Connect one accepted connection to the hub; it is closed if the hub is unreachable."""
        self._open.add(back)
        try:
            far, onward = await asyncio.open_connection(HOST, self._target)
        except OSError:
            back.close()
            self._open.discard(back)
            return
        self._open.add(onward)
        try:
            await asyncio.gather(pump(near, onward), pump(far, back))
        finally:
            self._open -= {back, onward}


async def serve(listen: int, target: int) -> None:
    """Forward connections, obeying the two signals, until killed."""
    orders: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for order in (CUT, MEND):
        asyncio.get_running_loop().add_signal_handler(order, orders.put_nowait, order)
    link = Link(listen, target)
    await link.mend()
    while True:
        if await orders.get() is CUT:
            link.cut()
        else:
            await link.mend()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
