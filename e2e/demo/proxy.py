"""The link of one node: a small TCP proxy in a process of its own.

    edge ──► 127.0.0.1:LISTEN ──proxy──► 127.0.0.1:TARGET ──► hub

Cutting the link is killing this process: what was open breaks, what is tried is refused. Starting it again on the same
port brings the link back. Run as `python -m e2e.demo.proxy LISTEN TARGET`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

HOST = "127.0.0.1"
CHUNK_BYTES = 64 * 1024


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction until its end, then close the other side's door."""
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        return
    finally:
        writer.close()


async def carry(near: asyncio.StreamReader, back: asyncio.StreamWriter, target: int) -> None:
    """Join one accepted connection with the hub; a hub that is not there closes it."""
    try:
        far, onward = await asyncio.open_connection(HOST, target)
    except OSError:
        back.close()
        return
    await asyncio.gather(pump(near, onward), pump(far, back))


async def serve(listen: int, target: int) -> None:
    """Carry until killed."""
    server = await asyncio.start_server(lambda near, back: carry(near, back, target), HOST, listen)
    async with server:
        print(f"link {listen} -> {target}", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
