"""Scenarios of many nodes that do nothing: what they cost while idle, while away, and when all come back at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from benchmarks.collect import Row
from benchmarks.downstream_lab import CONFIG_MAPS, NO_RECORDS, Lab, Plant, all_recorded, reached, row, running
from tests.support.pki import Authority

from fairlead_cli.simulated_node import SimulatedNode
from fairlead_wire.io import tls

CALM_SECONDS = 5.0
"""After the last session opened; the hub gives unused pages back meanwhile."""

# ---- at rest ------------------------------------------------------------------------------------


async def at_rest(lab: Lab) -> AsyncIterator[Row]:
    """100 nodes x 10 objects for half a minute: CPU, and bytes on a link."""
    names = await lab.nodes(100)
    await lab.rule()
    await lab.config_maps(10)
    async with Plant(lab) as plant, plant.fleet(names) as nodes:
        await reached("the first sync", lambda: all(len(node.held) == 10 for node in nodes))
        await asyncio.sleep(4)
        await all_recorded(plant)
        await asyncio.sleep(2)
        cpu = plant.cpu
        down = sum(node.figures.bytes_down + node.figures.bytes_up for node in nodes)
        await asyncio.sleep(40)
        per_minute = (plant.cpu - cpu) * 60 / 40
        day = (sum(node.figures.bytes_down + node.figures.bytes_up for node in nodes) - down) / 100 * 86400 / 40
        # Each frame travels in a WebSocket frame (6 + 2 bytes both ways) and a TLS record (22 bytes each).
        framing = 2 * 8640 * (4 + 22)
    yield row("down.idle_cpu", per_minute, "s/min", per_minute <= 0.3)
    yield row("down.idle_link", (day + framing) / 1e6, "MB/day with framing", (day + framing) <= 1e6)


async def return_of_all(lab: Lab) -> AsyncIterator[Row]:
    """2,000 nodes: memory for each, plain and with mTLS; then all of them return after a kill -9."""
    names = await lab.nodes(2000)
    await lab.rule()
    await lab.config_maps(10)
    authority = Authority(lab.folder / "pki")
    top = f'tls_ca = "{authority.certificate}"\n'
    server = authority.issue("hub", hosts=("127.0.0.1",))
    top += f'tls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
    async with Plant(lab, NO_RECORDS) as plant:
        await asyncio.sleep(2)
        before = plant.memory
        async with plant.fleet(names) as nodes:
            await reached("the first sync", lambda: all(len(node.held) == 10 for node in nodes), every=0.2)
            await asyncio.sleep(CALM_SECONDS)
            plain = (plant.memory - before) / len(names)
    clients = {name: authority.issue(name) for name in names}
    contexts = {
        name: tls.client_context(tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key))
        for name, pair in clients.items()
    }
    async with Plant(lab, NO_RECORDS, top=top, tls=True) as plant:
        await asyncio.sleep(2)
        before = plant.memory
        nodes = [SimulatedNode(name, plant.url, context=contexts[name]) for name in names]
        async with running(nodes):
            await reached("the first sync", lambda: all(len(node.held) == 10 for node in nodes), every=0.2)
            await asyncio.sleep(CALM_SECONDS)
            kib = (plant.memory - before) / len(names) / 1024
            met = kib <= 64 and plain <= 32 * 1024
            yield row("down.idle_memory", kib, f"KiB a node with mTLS (plain {plain / 1024:.0f})", met)
            updates = sum(node.figures.updates for node in nodes)
            down = sum(node.figures.bytes_down + node.figures.bytes_up for node in nodes)
            plant.hub.kill()
            started = time.monotonic()
            await reached("the kill is felt", lambda: not any(node.connected.is_set() for node in nodes))
            plant.hub.start(ready=False)
            await reached("all are back", lambda: all(node.connected.is_set() for node in nodes), every=0.05)
            seconds = time.monotonic() - started
            await asyncio.sleep(1)
            sent_again = sum(node.figures.updates for node in nodes) - updates
            bytes_each = (sum(n.figures.bytes_down + n.figures.bytes_up for n in nodes) - down) / len(names)
    met = seconds <= 12 and sent_again == 0 and bytes_each <= 1024
    yield row("down.storm", seconds, f"s ({sent_again} re-sent, {bytes_each:.0f} bytes a node)", met)


async def away(lab: Lab) -> AsyncIterator[Row]:
    """1,000 nodes away while what they should hold changes: the hub's memory and CPU, beside a hub without nodes."""
    await lab.rule()
    objects = await lab.config_maps(50)

    async def changes() -> tuple[float, float]:
        """(bytes grown, CPU seconds) of a thousand changes."""
        async with Plant(lab, NO_RECORDS) as plant:
            await asyncio.sleep(2)
            before, cpu = plant.memory, plant.cpu
            for number in range(20):
                await lab.patch((f"{CONFIG_MAPS}/{name}", {"data": {"value": f"{number}"}}) for name in objects)
            await asyncio.sleep(1)
            return plant.memory - before, plant.cpu - cpu

    alone_bytes, alone = await changes()
    await lab.nodes(1000)
    grown, spent = await changes()
    each = max(0.0, grown - alone_bytes) / 1000 / 1024
    # A hundredth of a second is all the kernel tells: half as much again is within it.
    met = each <= 2 and spent <= 1.5 * alone
    unit = f"KiB an absent node ({spent:.2f} s CPU for 1,000 changes, {alone:.2f} without nodes)"
    yield row("down.away", each, unit, met)
