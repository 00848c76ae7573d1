"""Downstream: how fast, how dear and how steady objects reach nodes, beside window 1 and beside fire-and-forget.

    rows ─▶ Lab (one cluster) ─▶ scenarios of delivery, scenarios of a crowd ─▶ rows with their baselines

The nodes are simulated on real sockets (acks at once, nothing on disk); the API server and the hub are real processes
on this machine, which they share with the nodes: ratios travel better than absolute figures.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import uvloop

from benchmarks.collect import Row
from benchmarks.downstream import crowd, delivery
from benchmarks.downstream.lab import ROOM, Lab

__all__ = ["ROOM", "rows"]
Scenario = Callable[[Lab], AsyncIterator[Row]]
SCENARIOS: tuple[Scenario, ...] = (
    delivery.far_away,
    delivery.bytes_of_a_change,
    delivery.everything_included,
    delivery.many_nodes,
    delivery.poison,
    delivery.latency,
    crowd.away,
    crowd.at_rest,
    crowd.return_of_all,
    crowd.rotation,
)


def rows() -> Iterator[Row]:
    """Measure everything; one scenario after the other."""
    # The nodes share the processor with the hub: they must not be the slower half.
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        lab = Lab(Path(folder))
        runner.run(lab.__aenter__())
        try:
            for scenario in SCENARIOS:
                yield from runner.run(play(scenario, lab))
        finally:
            runner.run(lab.__aexit__())


async def play(scenario: Scenario, lab: Lab) -> list[Row]:
    """A scenario that fails costs the rows it had not measured yet; they are listed as not measured."""
    found: list[Row] = []
    try:
        async for row in scenario(lab):
            found.append(row)  # noqa: PERF401 - what came before a failure is kept
    except AssertionError as error:
        print(f"  {scenario.__name__}: {error}", flush=True)
    finally:
        await lab.clean()
    return found
