"""Scenarios of many nodes that do nothing: what they cost while idle, while away, and when all come back at once."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator

from tests.support.joining.pki import Authority

from benchmarks.collect import Row
from benchmarks.downstream.lab import CONFIG_MAPS, NO_RECORDS, Lab, Plant, all_recorded, reached, row, running
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


async def rotation(lab: Lab) -> AsyncIterator[Row]:
    """2,000 nodes with mTLS get certificates of a new authority, and return at once; then some are revoked."""
    names = await lab.nodes(2000)
    await lab.rule()
    await lab.config_maps(10)
    internal = Authority(lab.folder / "internal", "internal")
    old, new = Authority(lab.folder / "old", "nodes 2026"), Authority(lab.folder / "new", "nodes 2027")
    server, trusted = internal.issue("hub", hosts=("127.0.0.1",)), lab.folder / "nodes.crt"
    trusted.write_bytes(old.certificate.read_bytes())
    top = f'tls_ca = "{internal.certificate}"\nidentity.link_ca = "{trusted}"\n'
    top += f'tls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'

    def contexts(authority: Authority) -> list[ssl.SSLContext]:
        pairs = (authority.issue(name, uri=f"spiffe://fairlead/node/{name}") for name in names)
        files = (tls.Files(ca=internal.certificate, cert=pair.certificate, key=pair.key) for pair in pairs)
        return [tls.client_context(each) for each in files]

    first, second = contexts(old), contexts(new)
    async with Plant(lab, NO_RECORDS, top=top, tls=True) as plant:
        nodes = [SimulatedNode(name, plant.url, context=one) for name, one in zip(names, first, strict=True)]
        async with running(nodes):
            await reached("the first sync", lambda: all(len(node.held) == 10 for node in nodes), every=0.2)
            trusted.write_bytes(new.certificate.read_bytes() + old.certificate.read_bytes())
            await asyncio.sleep(2 * tls.RELOAD_SECONDS)
            connections = sum(node.figures.connections for node in nodes)
            for node, context in zip(nodes, second, strict=True):
                node.certify(context)
            cpu, started = plant.cpu, time.monotonic()
            await asyncio.gather(*(node.drop() for node in nodes))
            await reached(
                "all are back with new certificates",
                lambda: (
                    sum(node.figures.connections for node in nodes) >= connections + len(nodes)
                    and all(node.connected.is_set() for node in nodes)
                ),
                every=0.05,
            )
            seconds, spent, mebibytes = time.monotonic() - started, plant.cpu - cpu, plant.memory / 2**20
            trusted.write_bytes(new.certificate.read_bytes())
            await asyncio.sleep(2 * tls.RELOAD_SECONDS)
            lost = sum(not node.connected.is_set() for node in nodes)
            met = seconds <= 12 and lost == 0
            yield row("down.rotation", seconds, f"s ({spent:.1f} s CPU, {mebibytes:.0f} MiB, {lost} lost)", met)
            waits = [await _cut(lab, node) for node in nodes[:20]]
    worst = max(waits)
    typical = sorted(waits)[len(waits) // 2]
    yield row("down.revoked", worst, f"s, the slowest of {len(waits)} (half within {typical:.3f})", worst <= 2)


async def _cut(lab: Lab, node: SimulatedNode) -> float:
    """Seconds from the order to the end of the node's session."""
    started = time.monotonic()
    spec = {"revoked": {"before": "2100-01-01T00:00:00Z", "reason": "measured"}}
    body = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeNode", "metadata": {"name": node.name}, "spec": spec}
    await lab.create("apis/fairlead.dev/v1alpha1/edgenodes", [body])
    await reached("it is cut", lambda: node.figures.refused.get("revoked", 0) > 0, every=0.001)
    return time.monotonic() - started
