"""The status, read from real parts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from tests.support.edges.held import config_map, put

from fairlead_edge.io.link.link import Link
from fairlead_edge.io.local_api.connections import LocalConnections
from fairlead_edge.io.local_api.objects_api import ObjectsApi
from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.io.routes_in_use import RoutesCopy, RoutesInUse
from fairlead_edge.io.status_reporter import StatusReporter
from fairlead_edge.io.status_sender import StatusSender
from fairlead_edge.objects.metastore import Remove
from fairlead_wire import message


async def test_what_is_held_is_counted_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteMetastore(tmp_path, node="edge-1", bytes_max=1 << 24, wall_milliseconds=1)
    outbox = SqliteOutbox(tmp_path / "outbox.db", epoch=7, max_bytes=1 << 20)
    link = Link(
        hub_url="ws://127.0.0.1:9", node="edge-1", agent="1", store_epoch=7, store=store, clock=outbox.now,
        random=Random(1), attempt_seconds_max=1.0, stale_hub_seconds=600.0,
    )  # fmt: skip
    upstream = UpstreamService(
        outbox=outbox, node="edge-1", link=link, random=Random(1), cleanup_seconds=60, check_entire_queue=False
    )
    routes = RoutesInUse(
        "edge-1", store, RoutesCopy(tmp_path / "routes.copy"), use=upstream.use_router, changed=lambda: None
    )
    objects = ObjectsApi(store, agent="1", age_of=lambda held: 0.0, secrets_allowed=lambda request: True)
    reporter = StatusReporter(
        node="edge-1", agent="1", object_bytes_max=1 << 24, store=store, outbox=outbox, link=link, upstream=upstream,
        connections=LocalConnections(),
        watches=objects.watches, routes=routes, statuses=StatusSender(store.statuses, store.log, Random(1)),
    )  # fmt: skip
    reports: asyncio.Queue[message.EdgeStatus] = asyncio.Queue()
    monkeypatch.setattr(link, "report", reports.put_nowait)
    await store.apply([put(config_map("a"))], now=0)
    await reporter.count()
    store.log.listen(reporter.follow)
    running = asyncio.create_task(reporter.run())
    try:
        async with asyncio.timeout(100):
            assert (await reports.get()).held == 1
            b = put(config_map("b"))
            await store.apply([b, put(config_map("c"))], now=0)
            await store.apply([Remove(resource=b.resource, uid=b.uid)], now=0)
            reporter.changed()
            assert (await reports.get()).held == reporter.held == 2
            reporter.lost(1)
            assert (await reporter.status())["objects"]["held"] == 1
            assert "fairlead_edge_objects_held 1" in await reporter.metrics()
    finally:
        running.cancel()
        await store.close()
        await outbox.close()
