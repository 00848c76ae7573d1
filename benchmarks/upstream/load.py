"""A producer in a process of its own: posts prepared batches over some connections for some seconds.

    python -m benchmarks.upstream.load PORT CONNECTIONS BATCH SECONDS PRIORITIES

It prints messages, seconds, p50 and p99 (seconds) as JSON.  PRIORITIES is how many the requests take turns in (1: the
default alone).  Plain sockets and prepared requests, so that the figure is the agent's and not a client library's.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Iterator

import uvloop

BODY_BYTES = 1024


def request(port: int, batch: int, priority: str) -> bytes:
    """One POST with ``batch`` readings of 1 KiB, as an output that has one route sends them."""
    sensors = [
        {"sensor": f"line-{n}", "celsius": 20 + n / 7, "bar": 1.013 + n / 1000, "ok": n % 5 > 0} for n in range(9)
    ]
    messages = []
    for index in range(batch):
        body = {"at": 1_790_000_000 + index, "sequence": index, "readings": sensors}
        body["pad"] = "".join(f"{(index * 7919 + n * 104729) % 65536:04x}" for n in range(24))
        body["rest"] = "-" * (BODY_BYTES - len(json.dumps(body)) - 12)
        messages.append({"source": "/messages/modules/m/outputs/o", "properties": {"p": priority}, "body": body})
    content = json.dumps({"messages": messages}).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


async def produce(port: int, requests: Iterator[bytes], until: float, waits: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.monotonic() < until:
        began = time.monotonic()
        writer.write(next(requests))
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise SystemExit(head.decode())
        length = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))[15:])
        await reader.readexactly(length)
        waits.append(time.monotonic() - began)
    writer.close()


async def load(port: int, connections: int, batch: int, seconds: float, priorities: int) -> dict[str, float]:
    names = ["none", *(str(priority) for priority in range(10))][:priorities]
    requests = itertools.cycle([request(port, batch, name) for name in names])
    waits: list[float] = []
    began = time.monotonic()
    await asyncio.gather(*(produce(port, requests, began + seconds, waits) for _ in range(connections)))
    took = time.monotonic() - began
    waits.sort()
    return {
        "messages": len(waits) * batch,
        "seconds": took,
        "p50": waits[len(waits) // 2],
        "p99": waits[int(len(waits) * 0.99)],
    }


if __name__ == "__main__":
    port, connections, batch, seconds, priorities = (int(text) for text in sys.argv[1:])
    print(json.dumps(uvloop.run(load(port, connections, batch, seconds, priorities))))
