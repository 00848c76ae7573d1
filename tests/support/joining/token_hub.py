"""Writes pins and URL into each new join token on a real API server, in place of a hub."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence

from tests.support.kube.cluster import Cluster

from fairlead_cli.cluster import collections
from fairlead_cli.cluster.collections import Collection
from fairlead_cli.cluster.join_tokens import PATH
from fairlead_hub.io.cluster import api_access, api_error, kube


@contextlib.contextmanager
def introducing(cluster: Cluster, pins: Sequence[str], url: str) -> Iterator[None]:
    """While the block runs."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(_introduce(cluster, pins, url))
    thread = threading.Thread(target=_run, args=(loop, task))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


def _run(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(task)


async def _introduce(cluster: Cluster, pins: Sequence[str], url: str) -> None:
    client = kube.Kube(api_access.load(str(cluster.kubeconfig)))
    try:
        async for changes in collections.changes(client, Collection(PATH)):
            for change in changes:
                if not change.deleted and not change.item.get("status"):
                    path = f"{PATH}/{change.item['metadata']['name']}/status"
                    with contextlib.suppress(api_error.ApiRefused):  # it was deleted meanwhile
                        status = {"status": {"pins": list(pins), "url": url}}
                        await client.request("PATCH", path, status, content_type=kube.MERGE_PATCH)
    finally:
        await client.close()
