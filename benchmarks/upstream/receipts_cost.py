"""What receipts cost the agent: CPU of accepting and of draining, with and without them, in turns in one process.

    .venv/bin/python -m benchmarks.upstream.receipts_cost [ROUNDS]    # about a minute

The store is on a disk, the hub in memory: it costs nothing, so that the ratio is the agent's own.  Each round drains
20,000 messages without receipts, with them, and once more without: so far two equal things are apart.  The ring of
what is remembered is full before the first round, so that forgetting is counted, too.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import uvloop
from tests.support.upstream import FakeHub, body, open_upstream

from fairlead_edge.errors import LinkDown
from fairlead_edge.io.outbox.tables import departures
from fairlead_edge.io.outbox.upstream import Upstream
from fairlead_edge.io.outbox.upstream_pump import NO_RECEIPTS
from fairlead_edge.outbox.receipts.departure import RING_BYTES_MAX
from fairlead_wire import message

ROUNDS = 15
MESSAGES = 20_000
SHAPES = {"requests of 1": 1, "requests of 50": 50, "requests of 5,000": 5_000}
AT_ONCE = 500
"""Requests of one message that wait for the same flush."""
RING_BYTES, RING_PARTS = RING_BYTES_MAX // 8, departures.RING_PARTS // 8
"""A smaller ring, forgotten in parts of the same size: full sooner, and as costly."""
WARM_MESSAGES = RING_BYTES // 16
"""As many as it remembers at most."""
POSITIONS_APART = 10_000


class CountingHub(FakeHub):
    """Acknowledges without a look, each batch behind the one before."""

    def __init__(self) -> None:
        super().__init__()
        self._newest = 1

    async def send_upstream(
        self,
        stream: str,
        encoding: message.Encoding,
        content: bytes,
        *,
        follows: bool = False,
        priority: int = 0,
        traceparent: str | None = None,
    ) -> message.Ack:
        """At once; the hub's answer of a batch in one topic."""
        if not self.up:
            raise LinkDown("cut")
        first, self._newest = self._newest, self._newest + POSITIONS_APART
        place = message.TopicPosition(
            index=0, service="6f9619ff-8b86-d011-b42d-00c04fc964ff", generation=1,
            first=f"{first:020x}" + "0" * 20, newest=f"{self._newest - 1:020x}" + "0" * 20,
        )  # fmt: skip
        await asyncio.sleep(0)
        return message.Ack(parent_id=1, positions=[place])


class Cost:
    """CPU of one shape, in µs a message, by what was measured."""

    def __init__(self, folder: Path, size: int) -> None:
        self._hub = CountingHub()
        self._upstream: Upstream = open_upstream(folder / f"{size}.db", self._hub)
        self._receipts = self._upstream.pump._departed
        self._request = body(*[{"body": {"celsius": 20.25, "bar": 1.013, "number": n}} for n in range(size)])
        self._size = size
        self.found: dict[str, list[float]] = {"accept": [], "without": [], "with": [], "without again": []}

    async def measure(self, rounds: int) -> None:
        task = asyncio.create_task(self._upstream.run())
        self._upstream.pump._departed = self._receipts
        for _ in range(0, WARM_MESSAGES, MESSAGES):
            await self._accept()
            await self._drain()
        for number in range(rounds):
            names = ("without", "with", "without again") if number % 2 else ("without again", "with", "without")
            for name in names:
                self._upstream.pump._departed = self._receipts if name == "with" else NO_RECEIPTS
                began = time.process_time()
                await self._accept()
                self.found["accept"].append((time.process_time() - began) / MESSAGES * 1e6)
                self.found[name].append(await self._drain())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._upstream.outbox.close()

    async def _accept(self) -> None:
        requests = MESSAGES // self._size
        for _ in range(0, requests, AT_ONCE):
            publish = self._upstream.publisher.publish
            await asyncio.gather(*[publish(self._request) for _ in range(min(AT_ONCE, requests))])

    async def _drain(self) -> float:
        counters = self._upstream.pump.counters
        until, began = counters["acked"] + MESSAGES, time.process_time()
        self._hub.connect()
        while counters["acked"] < until:  # noqa: ASYNC110 - the pump counts and wakes no one
            await asyncio.sleep(0.002)
        took = time.process_time() - began
        self._hub.cut()
        return took / MESSAGES * 1e6


def ratios(above: list[float], below: list[float]) -> Iterator[float]:
    """Of the pairs of each round."""
    return (one / other for one, other in zip(above, below, strict=True))


async def main(rounds: int) -> None:
    """Print the table."""
    print(f"{'µs of CPU a message':<22}{'accept':>8}{'drain':>8}{'with':>8}{'ratio':>8}{'of equals':>11}")
    ring = mock.patch.multiple(departures, RING_BYTES_MAX=RING_BYTES, RING_PARTS=RING_PARTS)
    with tempfile.TemporaryDirectory() as folder, ring:
        for label, size in SHAPES.items():
            cost = Cost(Path(folder), size)
            await cost.measure(rounds)
            found = cost.found
            accept, without, costs = (statistics.median(found[name]) for name in ("accept", "without", "with"))
            ratio = statistics.median(ratios(found["with"], found["without"]))
            equals = statistics.median(ratios(found["without again"], found["without"]))
            print(f"{label:<22}{accept:>8.2f}{without:>8.2f}{costs:>8.2f}{ratio:>8.3f}{equals:>11.3f}")


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if sys.argv[1:] else ROUNDS))
