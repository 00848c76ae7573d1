"""What reliability costs: the same changes at four levels, measured side by side, and the line up hop by hop.

    python -m benchmarks.cost        (``make cost``)  ─▶ docs/explanation/cost.md, docs/explanation/cost.svg

Each level does what the one before does, and one thing more:

    sent        every change is written to every socket; no answer is read, nothing is remembered
    acked       the work queue, windows, acknowledgements, retries; nodes keep what they hold in memory
    durable     real agents: a change is on the disk, flushed, before it is acknowledged
    recorded    ObjectSync resources in the API server tell what each node holds

All parties are real processes on one machine, but for the nodes of the first two levels, which are simulated on real
sockets.  CPU is the operating system's own accounting of each process.  Latency begins before the write to the API
server and ends where the level ends: the frame is at the node, the ack leaves the node, a local watch of the agent
shows the object (it serves only what is durable), a watch of ObjectSync shows the version.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import uvloop
from tests.support.edges.edge_line import EdgeProgram
from tests.support.processes import wait_until
from tests.support.whole_line import WholeLine

from benchmarks.cost import page as cost_page
from benchmarks.cost.page import Figures, Hops, Level
from benchmarks.downstream import fire_and_forget as baseline
from benchmarks.downstream.lab import (
    CONFIG_MAPS,
    NAMESPACE,
    NO_RECORDS,
    TICKS,
    Lab,
    Plant,
    all_recorded,
    reached,
    running,
)
from benchmarks.ingest import layers as ingest_layers
from benchmarks.upstream import bench_upstream as upstream
from fairlead_cli.simulated_node import SimulatedNode
from fairlead_hub.io.cluster.api_access import ApiAccess
from fairlead_hub.io.cluster.kube import MERGE_PATCH, Kube
from fairlead_wire import message

NODES = 8
OBJECTS = 100
OBJECT_BYTES = 1000
ROUNDS = 5
UP_SECONDS = 8
STEADY_CHANGES = 100
STEADY_PER_SECOND = 5
QUIET_SECONDS = 120.0
OBJECT_SYNCS = f"apis/fairlead.dev/v1alpha1/namespaces/{NAMESPACE}/objectsyncs"

Seen = Callable[[str, str, int], None]
"""(node, name of the object, which change of it) is there, now.  A change is known by the object's version in the
cluster; at an agent, whose API has versions of its own, by the number that was written into the object."""


class Arrivals:
    """When each node had which change of which object."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, str], list[tuple[int, float]]] = {}

    def seen(self, node: str, name: str, change: int) -> None:
        self._at.setdefault((node, name), []).append((change, time.monotonic()))

    def first(self, node: str, name: str, change: int) -> float | None:
        """The moment this change or a later one was there; None: not yet."""
        return next((at for found, at in self._at.get((node, name), ()) if found >= change), None)


class Setting:
    """One level, set up: who pays, who tells of arrivals, how many bytes went over the links."""

    def __init__(
        self,
        hub: Callable[[], float],
        *,
        nodes: Callable[[], float] | None = None,
        link: Callable[[], float] | None = None,
        rest: Callable[[], Awaitable[None]] | None = None,
        numbered: bool = False,
    ) -> None:
        """``hub`` and ``nodes`` tell seconds of CPU, ``link`` bytes in both directions so far; ``rest`` waits until
        everything that follows a delivery has been done; ``numbered``: changes are known by their number."""
        self.hub, self.nodes, self.link, self.rest, self.numbered = hub, nodes, link, rest, numbered


def cpu(pid: int) -> float:
    """Seconds of CPU the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.asynccontextmanager
async def sent(lab: Lab, names: list[str], seen: Seen) -> AsyncIterator[Setting]:
    async with baseline.Process(lab) as process:
        nodes = [SimulatedNode(name, process.url, on_update=_noting(name, seen)) for name in names]
        async with running(nodes):
            await reached("the nodes are there", lambda: all(node.connected.is_set() for node in nodes))
            yield Setting(lambda: process.cpu, link=lambda: float(sum(node.figures.bytes_down for node in nodes)))


@contextlib.asynccontextmanager
async def acked(lab: Lab, names: list[str], seen: Seen) -> AsyncIterator[Setting]:
    async with Plant(lab, NO_RECORDS) as plant:
        nodes = [SimulatedNode(name, plant.url, on_update=_noting(name, seen)) for name in names]
        async with running(nodes):
            await reached("the first sync", lambda: all(len(node.held) >= OBJECTS for node in nodes))
            yield Setting(
                lambda: plant.cpu,
                link=lambda: float(sum(node.figures.bytes_down + node.figures.bytes_up for node in nodes)),
            )


@contextlib.asynccontextmanager
async def durable(lab: Lab, names: list[str], seen: Seen) -> AsyncIterator[Setting]:
    async with (
        Plant(lab, NO_RECORDS) as plant,
        agents(lab, plant, names) as edges,
        contextlib.AsyncExitStack() as stack,
    ):
        for name, edge in edges.items():
            await stack.enter_async_context(following(Kube(local(edge)), CONFIG_MAPS, _local_object(name, seen)))
        yield Setting(lambda: plant.cpu, nodes=lambda: sum(cpu(edge.pid) for edge in edges.values()), numbered=True)


@contextlib.asynccontextmanager
async def recorded(lab: Lab, names: list[str], seen: Seen) -> AsyncIterator[Setting]:
    async with Plant(lab) as plant, agents(lab, plant, names) as edges:
        await all_recorded(plant)
        async with following(Kube(lab.kube.access), OBJECT_SYNCS, _record(seen)):
            yield Setting(
                lambda: plant.cpu,
                nodes=lambda: sum(cpu(edge.pid) for edge in edges.values()),
                rest=lambda: all_recorded(plant),
            )


LEVELS = {"sent": sent, "acked": acked, "durable": durable, "recorded": recorded}


def _noting(node: str, seen: Seen) -> Callable[[message.Update, float], None]:
    return lambda update, now: seen(node, update.resource.rpartition("/")[2], int(update.resource_version))


def _local_object(node: str, seen: Seen) -> Callable[[dict[str, object]], None]:
    def show(body: dict[str, object]) -> None:
        metadata, data = body["metadata"], body["data"]
        assert isinstance(metadata, dict) and isinstance(data, dict)
        seen(node, metadata["name"], int(data["value"]))

    return show


def _record(seen: Seen) -> Callable[[dict[str, object]], None]:
    def show(body: dict[str, object]) -> None:
        spec, status = body["spec"], body.get("status") or {}
        assert isinstance(spec, dict) and isinstance(status, dict)
        version = status.get("objectResourceVersion")
        if version:
            seen(spec["nodeName"], spec["objectName"], int(version))

    return show


def local(edge: EdgeProgram) -> ApiAccess:
    """The agent's own API."""
    return ApiAccess(edge.url, dict)


@contextlib.asynccontextmanager
async def agents(lab: Lab, plant: Plant, names: list[str]) -> AsyncIterator[dict[str, EdgeProgram]]:
    """Real agents that hold everything."""
    with contextlib.ExitStack() as stack:
        edges = {}
        for name in names:
            folder = lab.folder / f"{name}-{time.monotonic_ns()}"
            edge = EdgeProgram(folder, plant.hub.link_port, node=name)
            edges[name] = await asyncio.to_thread(stack.enter_context, edge)

        def full() -> bool:
            return all(held(edge) >= OBJECTS for edge in edges.values())

        await reached("the first sync", full, every=0.2)
        yield edges


def held(edge: EdgeProgram) -> int:
    return len(msgspec.json.decode(edge.get(f"/{CONFIG_MAPS}"))["items"])


@contextlib.asynccontextmanager
async def following(kube: Kube, path: str, show: Callable[[dict[str, object]], None]) -> AsyncIterator[None]:
    """A watch from now on."""
    version = msgspec.json.decode(await kube.get(path))["metadata"]["resourceVersion"]
    opened = asyncio.Event()

    async def watch() -> None:
        parameters = {"watch": "true", "resourceVersion": version}
        async for line in kube.lines(path, parameters, QUIET_SECONDS, opened=opened.set):
            show(msgspec.json.decode(line)["object"])

    task = asyncio.create_task(watch())
    try:
        await asyncio.wait_for(opened.wait(), 30)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await kube.close()


async def measure(lab: Lab, level: str) -> Level:
    """Bursts for CPU and bytes, then single changes at a steady pace for latency."""
    names = await lab.nodes(NODES)
    await lab.rule()
    objects = await lab.config_maps(OBJECTS, OBJECT_BYTES)
    arrivals = Arrivals()
    async with LEVELS[level](lab, names, arrivals.seen) as setting:
        changes = Changes(lab, names, arrivals, numbered=setting.numbered)
        meters = {"hub_us": setting.hub, "api_us": lambda: control_plane(lab), "node_us": setting.nodes}
        await asyncio.sleep(1)
        before = {name: meter() for name, meter in meters.items() if meter is not None}
        link = setting.link() if setting.link else 0.0
        for _ in range(ROUNDS):
            await changes.arrived([await changes.make(name) for name in objects])
            if setting.rest is not None:
                await setting.rest()
        deliveries = ROUNDS * OBJECTS * NODES
        spent = {
            name: (meter() - before[name]) / deliveries * 1e6 for name, meter in meters.items() if meter is not None
        }
        if setting.link is not None:
            spent["link_bytes"] = (setting.link() - link) / deliveries
        waits = sorted(await changes.steady(objects))
    return Level(name=level, p50_ms=waits[len(waits) // 2] * 1e3, p99_ms=waits[int(len(waits) * 0.99)] * 1e3, **spent)


def control_plane(lab: Lab) -> float:
    return sum(cpu(lab.cluster.running[name].pid) for name in ("etcd", "kube-apiserver"))


class Changes:
    """Writes changes and waits for their arrival at every node."""

    def __init__(self, lab: Lab, names: list[str], arrivals: Arrivals, *, numbered: bool) -> None:
        self._lab, self._names, self._arrivals, self._numbered = lab, names, arrivals, numbered
        self._count = 0

    async def make(self, name: str) -> tuple[str, int, float]:
        """(object, which change, moment before the write)."""
        self._count += 1
        number, began = self._count, time.monotonic()
        answer = await self._lab.kube.request(
            "PATCH", f"{CONFIG_MAPS}/{name}", {"data": {"value": str(number)}}, content_type=MERGE_PATCH
        )
        version = int(msgspec.json.decode(answer)["metadata"]["resourceVersion"])
        return name, number if self._numbered else version, began

    async def arrived(self, changes: list[tuple[str, int, float]]) -> list[float]:
        """Waits until every node has every one of them; returns how many seconds each took."""
        missing = [(node, *change) for node in self._names for change in changes]
        waits: list[float] = []

        def all_there() -> bool:
            left = []
            for node, name, change, began in missing:
                at = self._arrivals.first(node, name, change)
                if at is None:
                    left.append((node, name, change, began))
                else:
                    waits.append(at - began)
            missing[:] = left
            return not left

        await reached("every node has every change", all_there, seconds=QUIET_SECONDS, every=0.02)
        return waits

    async def steady(self, objects: list[str]) -> list[float]:
        """Single changes at an even pace; seconds each took to each node."""
        making = []
        for number in range(STEADY_CHANGES):
            making.append(asyncio.create_task(self.make(objects[number % len(objects)])))
            await asyncio.sleep(1 / STEADY_PER_SECOND)
        return await self.arrived(list(await asyncio.gather(*making)))


def line_up(folder: Path) -> Hops:
    """CPU of each program for one message, from a producer into the topic, and how fast it went beside a raw echo."""
    echoed, _ = asyncio.run(upstream.echo())
    with WholeLine(folder) as line:
        assert line.hub.running is not None
        pids = {"agent": line.edge.pid, "hub": line.hub.running.pid, "messaging": line.messaging.pid}
        before = {name: cpu(pid) for name, pid in pids.items()}
        began, paid = time.monotonic(), children()
        found = upstream.load(line.edge.port, upstream.CONNECTIONS, upstream.BATCH, UP_SECONDS)
        producer = children() - paid
        wait_until("the line drains", line.edge.drained, seconds=120, every=0.01)
        count = found["messages"]
        rate = count / (time.monotonic() - began)
        spent = {name: (cpu(pid) - before[name]) / count * 1e6 for name, pid in pids.items()}
    return Hops(cpu_us={"producer": producer / count * 1e6, **spent}, rate=rate, echo=echoed, cores=os.cpu_count() or 1)


def children() -> float:
    """Seconds of CPU of the programs this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _main(folder: Path) -> list[Level]:
    found = []
    async with Lab(folder) as lab:
        for level in LEVELS:
            print(f"cost: {level} …", flush=True)
            try:
                found.append(await measure(lab, level))
            finally:
                await lab.clean()
            print(f"cost: {cost_page.sentence(found[-1])}", flush=True)
    return found


def main() -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        levels = uvloop.run(_main(Path(folder)))
    print("cost: the line up …", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        hops = line_up(Path(folder))
    print("cost: the line into tables …", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        layers = ingest_layers.measure(Path(folder))
    cost_page.write(
        Figures(
            levels=levels,
            hops=hops,
            layers=layers,
            machine=f"{os.cpu_count()} cores",
            nodes=NODES,
            objects=OBJECTS,
            object_bytes=OBJECT_BYTES,
        )
    )
    print(f"cost: wrote {cost_page.PAGE} and {cost_page.PICTURE} in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
