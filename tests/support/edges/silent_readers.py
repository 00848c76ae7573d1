"""Clients of a node's local API that request a large collection and do not read the response."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from tests.support.edges.held import config_map, put

from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore

OBJECT_BYTES = 16 * 1024
LIST = "/api/v1/configmaps"
ASKED = (
    LIST,
    f"{LIST}?watch=true&resourceVersion=0",
    f"{LIST}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
)
"""A list, a watch from the beginning, a list by watching."""


async def fill(folder: Path, size: int, *, node: str = "edge-1") -> int:
    """Put ConfigMaps of ``size`` bytes in total into the store of this folder, unused by an agent; returns how many."""
    store = _opened(folder, node, 4 * size)
    try:
        writes = [
            put(config_map(f"big-{n:05}", annotations={"x": "y" * OBJECT_BYTES})) for n in range(size // OBJECT_BYTES)
        ]
        await store.apply(writes, now=0.0)
    finally:
        await store.close()
    return len(writes)


def _opened(folder: Path, node: str, bytes_max: int) -> SqliteMetastore:
    folder.mkdir(parents=True, exist_ok=True)
    return SqliteMetastore(folder, node=node, bytes_max=bytes_max, wall_milliseconds=1000)


@contextlib.contextmanager
def silent_readers(port: int, count: int) -> Iterator[list[socket.socket]]:
    """This many open requests, each with the smallest possible receive buffer."""
    with contextlib.ExitStack() as stack:
        opened = []
        for number in range(count):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            client.connect(("127.0.0.1", port))
            client.sendall(f"GET {ASKED[number % len(ASKED)]} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            opened.append(client)
        yield opened


def rss_mib(pid: int) -> float:
    """Memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
