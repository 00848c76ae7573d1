"""Scenarios of delivery: how fast, how dear and how steady changes reach nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
from tests.support.hubs.hub import config_map

from benchmarks.collect import Row
from benchmarks.downstream import fire_and_forget as baseline
from benchmarks.downstream.lab import (
    CONFIG_MAPS,
    NAMESPACE,
    NO_RECORDS,
    WINDOW_1,
    Delay,
    Lab,
    Plant,
    all_recorded,
    reached,
    row,
    running,
)
from fairlead_cli.simulated_node import SimulatedNode
from fairlead_wire import message

# ---- one node, far away -------------------------------------------------------------------------


async def far_away(lab: Lab) -> AsyncIterator[Row]:
    """Objects/s to one node behind a round trip, with the window and with window 1."""
    (name,) = await lab.nodes(1)
    await lab.rule()
    few = await lab.config_maps(40)

    async def rate(toml: str, round_trip: float, count: int) -> tuple[float, float]:
        async with (
            Plant(lab, toml) as plant,
            Delay(plant.hub.link_port, round_trip) as url,
            plant.fleet([name], url=url) as nodes,
        ):
            seconds = await reached("the first sync", lambda: len(nodes[0].held) >= count, every=0.005)
            return count / seconds, seconds

    window_1, _ = await rate(WINDOW_1, 0.1, len(few))
    await lab.config_maps(460, prefix="d")
    _, first_500 = await rate("", 0.1, 500)
    await lab.config_maps(1500, prefix="e")
    at_100, _ = await rate("", 0.1, 2000)
    at_300, _ = await rate("", 0.3, 2000)
    yield row("down.rtt100", at_100, "objects/s", at_100 >= 500 and at_100 >= 20 * window_1, window_1)
    yield row("down.rtt300", at_300, "objects/s", at_300 >= 200)
    yield row("down.first_sync_500", first_500, "s", first_500 <= 2)


# ---- many nodes ---------------------------------------------------------------------------------


async def many_nodes(lab: Lab) -> AsyncIterator[Row]:
    """200 nodes x 50 objects: CPU for each ack, without the record writer and against fire-and-forget."""
    names = await lab.nodes(200)
    await lab.rule()
    objects = await lab.config_maps(50)
    total = len(names) * len(objects)
    async with Plant(lab, NO_RECORDS) as plant:
        await asyncio.sleep(1)
        before = plant.cpu
        async with plant.fleet(names) as nodes:
            await reached("the first sync", lambda: sum(len(node.held) for node in nodes) >= total)
            await asyncio.sleep(0.3)
            acks = await plant.metric("acks_total")
            spent = plant.cpu - before
            per_core = acks / spent
            before = plant.cpu
            await lab.patch((f"{CONFIG_MAPS}/{name}", {"data": {"value": "1"}}) for name in objects)
            await reached("the updates", lambda: sum(node.figures.updates for node in nodes) >= 2 * total)
            await asyncio.sleep(0.3)
            reliable = (plant.cpu - before) / total
    yield row("down.hub_core", per_core, "objects/s per core", per_core >= 5000)
    forgotten = await fire_and_forget(lab, names, objects)
    # The goal counts the record in; with one change of each object, that is one write to the API server for each.
    recorded = lab.recorded_update or float("inf")
    unit = f"us CPU an object, acked and durable; {recorded * 1e6:.0f} with its record ({recorded / forgotten:.1f} x)"
    yield row("down.cost", reliable * 1e6, unit, recorded <= 2 * forgotten, forgotten * 1e6)


async def fire_and_forget(lab: Lab, names: list[str], objects: list[str]) -> float:
    """CPU seconds for each object when the same bytes are just written to the same sockets."""
    async with baseline.Process(lab) as process:
        nodes = [SimulatedNode(name, process.url) for name in names]
        async with running(nodes):
            await reached("everybody is there", lambda: all(node.connected.is_set() for node in nodes))
            await asyncio.sleep(1)
            before = process.cpu
            await lab.patch((f"{CONFIG_MAPS}/{name}", {"data": {"value": "2"}}) for name in objects)
            total = len(names) * len(objects)
            await reached("all were sent", lambda: sum(node.figures.updates for node in nodes) >= total)
            await asyncio.sleep(0.3)
            return (process.cpu - before) / total


async def everything_included(lab: Lab) -> AsyncIterator[Row]:
    """CPU and API requests for each delivery with its record, and of a burst on one object."""
    names = await lab.nodes(20)
    await lab.rule()
    objects = await lab.config_maps(50)
    total = len(names) * len(objects)
    async with Plant(lab) as plant:
        await asyncio.sleep(2)
        started, writes, restarts = plant.cpu, await plant.writes(), await plant.metric("watch_restarts_total")
        async with plant.fleet(names) as nodes:
            await reached("the first sync", lambda: sum(len(node.held) for node in nodes) >= total)
            await all_recorded(plant)
            await asyncio.sleep(1.5)
            await all_recorded(plant)
            first, after_first = (plant.cpu - started) / total, await plant.writes()
            started = plant.cpu
            await lab.patch((f"{CONFIG_MAPS}/{name}", {"data": {"value": "1"}}) for name in objects)
            await reached("the updates", lambda: sum(node.figures.updates for node in nodes) >= 2 * total)
            await asyncio.sleep(1.5)
            await all_recorded(plant)
            update, after_update = (plant.cpu - started) / total, await plant.writes()
            for number in range(100):
                await lab.patch([(f"{CONFIG_MAPS}/{objects[0]}", {"data": {"value": f"burst {number}"}})])
            await asyncio.sleep(2.5)
            await all_recorded(plant)
            after_burst = await plant.writes()
            relisted = await plant.metric("watch_restarts_total") - restarts
    # A node's EdgeNode (created, connected, up to date) and its Event are not deliveries: four writes.
    per_first = (_written(after_first) - _written(writes) - 4 * len(names)) / total
    per_update = (_written(after_update) - _written(after_first)) / total
    per_burst = (_written(after_burst) - _written(after_update)) / (100 * len(names))
    met = first <= 1.1e-3 and update <= 0.55e-3
    lab.recorded_update = update
    yield row("down.cpu", first * 1e3, f"ms first delivery ({update * 1e3:.2f} ms update)", met)
    reads = after_burst.get("GET", 0) - writes.get("GET", 0)
    # An API server under load ends watches early; what is listed then has nothing to do with deliveries.
    met = per_first <= 2.02 and per_update <= 1.02 and per_burst <= 0.05 and (reads == 0 or relisted > 0)
    unit = f"writes first delivery ({per_update:.2f} update, {per_burst:.3f} burst, {reads:.0f} reads"
    unit += f" as {relisted:.0f} watches were ended early)" if relisted else ")"
    yield row("down.api_writes", per_first, unit, met)


def _written(requests: dict[str, float]) -> float:
    return sum(requests.get(method, 0) for method in ("POST", "PATCH", "DELETE"))


async def latency(lab: Lab) -> AsyncIterator[Row]:
    """From before the write to the API until the node acks that version or a later one; then a fan-out to 200."""
    names = await lab.nodes(200)
    objects = await lab.config_maps(100)
    await lab.rule()
    seen: dict[str, list[tuple[int, float]]] = {}

    def noted(update: message.Update, now: float) -> None:
        seen.setdefault(update.resource, []).append((int(update.resource_version), now))

    async with Plant(lab) as plant:
        async with plant.fleet(names[:1], on_update=noted) as nodes:
            await reached("the first sync", lambda: all(len(node.held) == 100 for node in nodes))
            await asyncio.sleep(3)
            waits = await _changes(lab, objects, seen)
        async with plant.fleet(names) as nodes:
            await reached("the first sync", lambda: all(len(node.held) == 100 for node in nodes), seconds=300)
            await asyncio.sleep(2)
            updates = [node.figures.updates for node in nodes]
            started = time.monotonic()
            await lab.patch([(f"{CONFIG_MAPS}/{objects[0]}", {"data": {"value": "fan-out"}})])
            await reached(
                "the fan-out",
                lambda: all(n.figures.updates > u for n, u in zip(nodes, updates, strict=True)),
                every=0.002,
            )
            fan_out = sorted(node.figures.last_change - started for node in nodes)
    p99 = max(_p99(waits), _p99(fan_out))
    unit = f"ms p99 (200/s: {_p99(waits) * 1e3:.0f}, fan-out to 200: {_p99(fan_out) * 1e3:.0f})"
    yield row("down.latency", p99 * 1e3, unit, p99 <= 0.15)


async def _changes(lab: Lab, objects: list[str], seen: dict[str, list[tuple[int, float]]]) -> list[float]:
    written: list[tuple[str, int, float]] = []

    async def change(name: str, number: int) -> None:
        path = f"{CONFIG_MAPS}/{name}"
        started = time.monotonic()
        answer = await lab.kube.request(
            "PATCH", path, {"data": {"value": f"v{number}"}}, content_type="application/merge-patch+json"
        )
        written.append((path, int(msgspec.json.decode(answer)["metadata"]["resourceVersion"]), started))

    tasks = []
    for number in range(1000):
        tasks.append(asyncio.create_task(change(objects[number % len(objects)], number)))
        await asyncio.sleep(0.005)
    await asyncio.gather(*tasks)
    await asyncio.sleep(1)
    return [next(at for version, at in seen[path] if version >= wanted) - started for path, wanted, started in written]


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99) - 1]


# ---- one bad node, one bad object ---------------------------------------------------------------


async def poison(lab: Lab) -> AsyncIterator[Row]:
    """50 nodes, one of which never acks, another refuses one object: the others' p99 beside a run without them."""
    names = await lab.nodes(50)
    await lab.rule()
    objects = await lab.config_maps(20)

    async def p99(bad: bool) -> float:
        waits: list[float] = []
        at: dict[str, float] = {}

        def noted(update: message.Update, now: float) -> None:
            started = at.get(update.resource)
            if started is not None and not update.resource.endswith(objects[0]):
                waits.append(now - started)

        def refuse(update: message.Update) -> message.Nack | None:
            if bad and update.resource.endswith(objects[0]):
                return message.Nack(parent_id=update.id, code="poison", reason="always", permanent=False)
            return None

        async with Plant(lab, NO_RECORDS) as plant:
            good = [SimulatedNode(name, plant.url, on_update=noted) for name in names[2:]]
            good.append(SimulatedNode(names[1], plant.url, on_update=noted, refuse=refuse))
            good.append(SimulatedNode(names[0], plant.url, behaviour="never-ack" if bad else "well"))
            async with running(good):
                await reached("the first sync", lambda: all(len(node.held) >= 19 for node in good[:-1]))
                await asyncio.sleep(1)
                for number in range(10):
                    for name in objects:
                        path = f"{CONFIG_MAPS}/{name}"
                        at[path] = time.monotonic()
                        await lab.patch([(path, {"data": {"value": f"{bad}{number}"}})])
                    await asyncio.sleep(0.3)
                await asyncio.sleep(0.5)
        return _p99(waits)

    # Three times each, in turn, and the best of each: on a shared machine the worse one measures the neighbours.
    runs = [(await p99(False), await p99(True)) for _ in range(3)]
    alone, beside = min(run[0] for run in runs), min(run[1] for run in runs)
    yield row("down.poison", beside * 1e3, "ms p99 of the others", beside <= 1.2 * alone, alone * 1e3)


async def bytes_of_a_change(lab: Lab) -> AsyncIterator[Row]:
    """One annotation of a 2.5 KB object changes: bytes down."""
    (name,) = await lab.nodes(1)
    await lab.rule()
    await lab.create(CONFIG_MAPS, [_pod_like()])
    async with Plant(lab) as plant, plant.fleet([name]) as nodes:
        await reached("the first sync", lambda: len(nodes[0].held) == 1)
        await asyncio.sleep(0.5)
        before = nodes[0].figures.bytes_down
        await lab.patch([(f"{CONFIG_MAPS}/pod-like", {"metadata": {"annotations": {"checked": "now"}}})])
        await reached("the change", lambda: nodes[0].figures.updates == 2)
        down = nodes[0].figures.bytes_down - before
    yield row("down.bytes", down, "bytes down", down <= 1300)


def _pod_like() -> dict[str, object]:
    """A template-like text of a Pod's size: what an API server really stores compresses about as well."""
    spec = "\n".join(
        f"- name: container-{n}\n  image: registry.example.com/shop/till-{n * 7919}:v1.{n}.{n * 31}\n  env:\n"
        f"  - name: SETTING_{n}\n    valueFrom: configMapKeyRef: settings-{n * 104729}\n"
        f"  resources: cpu {n}0m memory {n}Mi"
        for n in range(1, 13)
    )
    body = config_map("pod-like", NAMESPACE, spec=spec)
    body["metadata"]["labels"] = {"bench": "yes"}
    return body
