"""A client in a process of its own: sends one prepared request over and over, on some connections for some seconds.

    python -m benchmarks.messaging.load HTTP PORT CONNECTIONS SECONDS PATH BODY-FILE  →  requests, seconds, p50, p99
    python -m benchmarks.messaging.load NATS PORT CONNECTIONS SECONDS SUBJECT BODY-FILE

Each connection waits for its answer before it sends again.  Plain protocols and prepared bytes, so that the figure is
the server's and not a client library's.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import cast

import uvloop


class Caller(asyncio.Protocol):
    """One connection; counts answers until the time is over."""

    def __init__(self, request: bytes, until: float, waits: list[float], done: asyncio.Future[None]) -> None:
        self.request = request
        self.until = until
        self.waits = waits
        self.done = done
        self.began = 0.0
        self.buffer = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.send()

    def send(self) -> None:
        self.began = time.perf_counter()
        self.transport.write(self.request)

    def answered(self) -> None:
        now = time.perf_counter()
        self.waits.append(now - self.began)
        if now < self.until:
            self.send()
        else:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, text: bytes) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(text[:300].decode(errors="replace")))
        self.transport.close()


class HttpCaller(Caller):
    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        if not self.buffer.startswith(b"HTTP/1.1 200"):
            self.fail(self.buffer)
            return
        start = self.buffer.lower().index(b"content-length:") + 15
        length = int(self.buffer[start : self.buffer.index(b"\r\n", start)])
        if len(self.buffer) >= end + 4 + length:
            self.buffer = b""
            self.answered()


class NatsCaller(Caller):
    """PUB with a reply subject; JetStream acknowledges with a message to it."""

    greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n")) >= 0:
            line = self.buffer[:end]
            if line.startswith(b"MSG "):
                size = int(line.rsplit(b" ", 1)[1])
                if len(self.buffer) < end + 2 + size + 2:
                    return
                answer = self.buffer[end + 2 : end + 2 + size]
                self.buffer = self.buffer[end + 4 + size :]
                if b'"error"' in answer:
                    self.fail(answer)
                    return
                self.answered()
                continue
            self.buffer = self.buffer[end + 2 :]
            if line.startswith(b"INFO ") and not self.greeted:
                self.greeted = True
                inbox = f"_INBOX.{id(self)}".encode()
                self.request = self.request.replace(b"{inbox}", inbox, 1)
                self.transport.write(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB ' + inbox + b" 1\r\n")
                self.send()
            elif line == b"PING":
                self.transport.write(b"PONG\r\n")
            elif line.startswith(b"-ERR"):
                self.fail(line)
                return


async def load(kind: str, port: int, connections: int, seconds: float, path: str, body: bytes) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    began = time.perf_counter()
    caller: type[Caller]
    if kind == "HTTP":
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        request, caller = head.encode() + body, HttpCaller
    else:
        request, caller = f"PUB {path} {{inbox}} {len(body)}\r\n".encode() + body + b"\r\n", NatsCaller
    ends = []
    for _ in range(connections):
        done = loop.create_future()
        ends.append(done)
        await loop.create_connection(
            lambda done=done: caller(request, began + seconds, waits, done),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
    await asyncio.gather(*ends)
    took = time.perf_counter() - began
    waits.sort()
    return {
        "requests": len(waits),
        "seconds": took,
        "p50": waits[len(waits) // 2],
        "p99": waits[int(len(waits) * 0.99)],
    }


if __name__ == "__main__":
    kind, port, connections, seconds, path, file = sys.argv[1:]
    print(
        json.dumps(uvloop.run(load(kind, int(port), int(connections), float(seconds), path, Path(file).read_bytes())))
    )
