"""What traces cost the agent at its door: off, on and not sampled, on and sampled, each beside off in turns.

    .venv/bin/python -m benchmarks.upstream.trace_cost          # three ratios of CPU time to "off"

Publishes go through parsing, routes and the store in memory, so that no disk hides what is measured.  Off is measured
twice, in turns with itself: so far two equal things are apart on this machine.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping

from tests.support.edges.upstream import PropertyRouter, body
from tests.support.otlp import Collector

from fairlead_edge.io.outbox.publisher import MessagePublisher
from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_wire.io.spans import Spans, open_spans
from fairlead_wire.traces.settings import TracesSettings

REQUESTS = 300
ROUNDS = 15
MESSAGES = 100
SAMPLED: Mapping[str, str] = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
ONE = body(*[{"body": {"celsius": 81.5, "number": 1}}])
MANY = body(*[{"body": {"celsius": 81.5, "number": number}} for number in range(MESSAGES)])


async def seconds(spans: Spans | None, content: bytes, headers: Mapping[str, str]) -> float:
    """CPU time of this process for ``REQUESTS`` publishes."""
    publisher = MessagePublisher(
        MemoryOutbox(epoch=1, max_bytes=1 << 40),
        clock=lambda: 0.0,
        timestamp=lambda: "2026-11-20T12:00:00.000Z",
        new_id=lambda: "0" * 32,
        make_room=_no_room,
        appended=lambda queues: None,
        spans=spans,
    )
    publisher.use_router(PropertyRouter())
    began = time.thread_time()
    for _ in range(REQUESTS):
        await publisher.publish(content, headers=headers)
    return time.thread_time() - began


async def _no_room() -> int:
    return 0


async def main() -> None:
    """Print the table."""
    print(f"{'request of':<14}{'':<24}{'µs a request':>14}{'ratio to off':>14}")
    with Collector() as collector:
        settings = TracesSettings(endpoint=collector.url, ceiling_per_second=10_000.0)
        spans = open_spans(settings, room="edge", version="0", environ={})
        assert spans is not None
        for label, content in (("1 message", ONE), (f"{MESSAGES} messages", MANY)):
            cases: list[tuple[str, Spans | None, Mapping[str, str]]] = [
                ("off", None, {}),
                ("off, once more", None, {}),
                ("on, not sampled", spans, {}),
                ("on, every one sampled", spans, SAMPLED),
            ]
            found: dict[str, list[float]] = {name: [] for name, _, _ in cases}
            for _ in range(ROUNDS):
                for name, opened, headers in cases:
                    found[name].append(await seconds(opened, content, headers))
            for name, times in found.items():
                ratio = statistics.median(each / off for each, off in zip(times, found["off"], strict=True))
                print(f"{label:<14}{name:<24}{min(times) / REQUESTS * 1e6:>14.1f}{ratio:>14.3f}")
        spans.close()


if __name__ == "__main__":
    asyncio.run(main())
