"""What receipts cost the agent: CPU of accepting and of draining, with and without them, in turns in one process.

    .venv/bin/python -m benchmarks.upstream.receipts_cost [ROUNDS]    # about a minute

The store is on a disk, the hub in memory: it costs nothing, so that the ratio is the agent's own.  Each round drains
20,000 messages as if there were no receipts at all (no ids are kept, nothing is noted), with them, and once more
without: so far two equal things are apart.  The ring of what is remembered is full before the first round, so that
forgetting is counted, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import uvloop
from tests.support.edges.upstream import FakeHub, body, open_upstream

from fairlead_edge.errors import LinkDown
from fairlead_edge.io.outbox.tables import receipt_tables
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.io.outbox.upstream_pump import NO_RECEIPTS
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.receipts.departure import RING_BYTES_MAX
from fairlead_wire import message

ROUNDS = 15
MESSAGES = 20_000
SHAPES = {"requests of 1": 1, "requests of 50": 50, "requests of 5,000": 5_000}
AT_ONCE = 500
"""Requests of one message that wait for the same flush."""
RING_BYTES, RING_PARTS = RING_BYTES_MAX // 8, receipt_tables.RING_PARTS // 8
"""A smaller ring, forgotten in parts of the same size: full sooner, and as costly."""
WARM_MESSAGES = RING_BYTES // 16
"""As many as it remembers at most."""
POSITIONS_APART = 10_000
MODES = ("without", "with", "without again")
BYTES = "SELECT sum(pgsize) FROM dbstat WHERE name IN ('names', 'departed', 'departed_by_place')"


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
        topic: str = "",
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
        self.path = folder / f"{size}.db"
        self._hub = CountingHub()
        self._upstream: UpstreamService = open_upstream(self.path, self._hub)
        self._receipts = self._upstream.pump._departed
        self._request = body(*[{"body": {"celsius": 20.25, "bar": 1.013, "number": n}} for n in range(size)])
        self._size = size
        self.accepted: dict[str, list[float]] = {name: [] for name in MODES}
        self.drained: dict[str, list[float]] = {name: [] for name in MODES}
        self.bytes = 0
        """Of the names and pages that are remembered at the end."""
        self.messages = 0
        """Of which."""

    async def measure(self, rounds: int) -> None:
        """Fill the ring, then take turns."""
        task = asyncio.create_task(self._upstream.run())
        for _ in range(0, WARM_MESSAGES, MESSAGES):
            await self._accept()
            await self._drain()
        for number in range(rounds):
            for name in MODES if number % 2 else reversed(MODES):
                with contextlib.ExitStack() as stack:
                    if name != "with":
                        for kept in ("keep_names", "drop_names"):
                            stack.enter_context(mock.patch.object(receipt_tables, kept, _nothing))
                        stack.enter_context(mock.patch.object(self._upstream.pump, "_departed", NO_RECEIPTS))
                    self.accepted[name].append(await self._accept())
                    self.drained[name].append(await self._drain())
        await self._look()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._upstream.outbox.close()

    async def _accept(self) -> float:
        requests, began = MESSAGES // self._size, time.process_time()
        publish = self._upstream.publisher.publish
        for _ in range(0, requests, AT_ONCE):
            await asyncio.gather(*[publish(self._request) for _ in range(min(AT_ONCE, requests))])
        return (time.process_time() - began) / MESSAGES * 1e6

    async def _drain(self) -> float:
        counters = self._upstream.pump.counters
        until, began = counters["acked"] + MESSAGES, time.process_time()
        self._hub.connect()
        while counters["acked"] < until:  # noqa: ASYNC110 - the pump counts and wakes no one
            await asyncio.sleep(0.002)
        took = time.process_time() - began
        self._hub.cut()
        return took / MESSAGES * 1e6

    async def _look(self) -> None:
        read = self._upstream.outbox.writer.read
        [(self.bytes,)] = await read(lambda connection: rows(connection, BYTES))
        [(self.messages,)] = await read(lambda connection: rows(connection, "SELECT sum(length(ids)) / 16 FROM names"))


def _nothing(*_: object) -> None:
    pass


def ratio(found: dict[str, list[float]], above: str) -> float:
    """Median of the pairs of each round."""
    return statistics.median(one / other for one, other in zip(found[above], found["without"], strict=True))


async def main(rounds: int) -> None:
    """Print the table."""
    print(f"{'':<20}{'accept: µs':>11}{'with':>7}{'ratio':>7}{'equals':>7}", end="")
    print(f"{'drain: µs':>11}{'with':>7}{'ratio':>7}{'equals':>7}{'bytes a message':>17}")
    ring = mock.patch.multiple(receipt_tables, RING_BYTES_MAX=RING_BYTES, RING_PARTS=RING_PARTS)
    with tempfile.TemporaryDirectory() as folder, ring:
        for label, size in SHAPES.items():
            cost = Cost(Path(folder), size)
            await cost.measure(rounds)
            print(f"{label:<20}", end="")
            for found, width in ((cost.accepted, 11), (cost.drained, 11)):
                without, costs = (statistics.median(found[name]) for name in ("without", "with"))
                print(f"{without:>{width}.2f}{costs:>7.2f}{ratio(found, 'with'):>7.3f}", end="")
                print(f"{ratio(found, 'without again'):>7.3f}", end="")
            print(f"{cost.bytes / cost.messages:>17.1f}", flush=True)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if sys.argv[1:] else ROUNDS))
