"""An MQTT publisher in a process of its own: QoS 1 with a window over some connections for some seconds.

    python -m benchmarks.upstream.mqtt_load PORT CONNECTIONS WINDOW SECONDS LEVEL

The same kibibyte of JSON as ``load``, in prepared packets.  It prints messages, seconds, p50 and p99 as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import uvloop
from tests.support.edges import mqtt_packets as client

from benchmarks.upstream.load import request

TOPIC = "fairlead/m/o"


def bodies(count: int) -> list[bytes]:
    """The bodies of ``load``'s request."""
    content = request(0, count, "none").partition(b"\r\n\r\n")[2]
    return [json.dumps(each["body"]).encode() for each in json.loads(content)["messages"]]


class Publisher(asyncio.Protocol):
    """Sends the next message for each PUBACK."""

    def __init__(self, number: int, window: int, level: int, until: float, waits: list[float]) -> None:
        self._number, self._level, self._until, self._waits = number, level, until, waits
        self._packets = [client.publish(TOPIC, body, level=level, id=id) for id, body in enumerate(bodies(window), 1)]
        self._sent = [0.0] * (window + 1)
        self._out = 0
        self._rest = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._transport.write(client.connect(f"bench-{self._number}", level=self._level))

    def data_received(self, data: bytes) -> None:
        found, self._rest = client.split(self._rest + data)
        now, more = time.monotonic(), []
        for each in found:
            if each.kind == client.CONNACK:
                assert each.body[1] == 0, each
                ids = list(range(1, len(self._packets) + 1))
            else:
                assert each.kind == client.PUBACK, each
                assert each.body[2:3] in (b"", b"\0"), each
                ids = [each.id]
                self._out -= 1
                self._waits.append(now - self._sent[each.id])
            if now < self._until:
                for id in ids:
                    self._sent[id] = now
                    more.append(self._packets[id - 1])
                self._out += len(ids)
        if more:
            self._transport.write(b"".join(more))
        elif not self._out and now >= self._until:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def load(port: int, connections: int, window: int, seconds: float, level: int) -> dict[str, float]:
    waits: list[float] = []
    began = time.monotonic()
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(
            lambda number=number: Publisher(number, window, level, began + seconds, waits),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
        for number in range(connections)
    ]
    await asyncio.gather(*(protocol.done for _, protocol in made))
    took = time.monotonic() - began
    waits.sort()
    return {
        "messages": len(waits),
        "seconds": took,
        "p50": waits[len(waits) // 2],
        "p99": waits[int(len(waits) * 0.99)],
    }


if __name__ == "__main__":
    port, connections, window, seconds, level = (int(text) for text in sys.argv[1:])
    print(json.dumps(uvloop.run(load(port, connections, window, seconds, level))))
