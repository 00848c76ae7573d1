"""Collections: read whole, and followed over a broken server."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from tests.support.hubs.hub import config_map
from tests.support.kube.cluster import Cluster

from fairlead_cli.cluster import collections
from fairlead_cli.cluster.collections import Collection, CollectionChange
from fairlead_hub.io.cluster import api_access, api_error, kube


def test_what_a_watch_missed() -> None:
    def item(uid: str, version: str) -> collections.Item:
        return {"metadata": {"uid": uid, "resourceVersion": version}}

    before = {uid: item(uid, "1") for uid in "abc"}
    now = [item("a", "1"), item("b", "2"), item("d", "1")]
    assert collections._missed(0, before, now) == [
        CollectionChange(0, now[1]),
        CollectionChange(0, now[2]),
        CollectionChange(0, before["c"], deleted=True),
    ]


class Short:
    """An API server, or something before it, that ends each watch at once in another way; then it forbids it."""

    def __init__(self) -> None:
        self.ends: list[list[bytes] | Exception] = [
            [],
            api_error.ApiUnavailable("away"),
            [b'{"type": "ERROR", "object": {"kind": "Status", "code": 500}}'],
            api_error.ApiRefused(410, "too old"),
            api_error.ApiRefused(403, "forbidden"),
        ]

    async def get(self, path: str, **_: str) -> bytes:
        return b'{"kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}, "items": []}'

    async def lines(self, *_: object) -> AsyncIterator[bytes]:
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        for line in end:
            yield line


async def test_a_watch_that_ends_at_once_is_not_opened_again_at_once() -> None:
    """However it ended: a loop without a pause would be thousands of requests a second."""
    server: Any = Short()
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    queue: asyncio.Queue[CollectionChange | Exception] = asyncio.Queue()
    await collections._follow(server, 0, Collection("api/v1/configmaps"), [], "7", queue, pause)
    assert pauses == [collections.PAUSE_SECONDS] * 4
    assert str(queue.get_nowait()) == "forbidden" and queue.empty()


async def test_listed_then_followed(cluster: Cluster, namespace: str) -> None:
    """Everything first, with apiVersion and kind; then what is made, changed and deleted, also over a restart."""
    cluster.apply(config_map("a", namespace, v="1"))
    client = kube.Kube(api_access.load(str(cluster.kubeconfig)))
    path = f"api/v1/namespaces/{namespace}/configmaps"
    label = f"l{secrets.token_hex(3)}"
    changes = collections.changes(client, Collection(path), Collection(path, {"labelSelector": label}))
    waiting: deque[CollectionChange] = deque()
    try:
        first = await anext(changes)
        assert ("v1", "ConfigMap", "a") in [
            (each.item["apiVersion"], each.item["kind"], each.item["metadata"]["name"]) for each in first
        ]
        assert {each.collection for each in first} == {0}
        cluster.apply(config_map("b", namespace, v="1"))
        assert await _next(changes, waiting, "b") == (0, False)
        cluster.restart_apiserver()
        cluster.kubectl("label", "configmap", "a", "-n", namespace, f"{label}=x")
        seen = {await _next(changes, waiting, "a") for _ in range(2)}
        assert seen == {(0, False), (1, False)}
        cluster.kubectl("delete", "configmap", "b", "-n", namespace)
        assert await _next(changes, waiting, "b") == (0, True)
    finally:
        await changes.aclose()  # type: ignore[attr-defined]
        await client.close()


async def _next(
    changes: AsyncIterator[list[CollectionChange]], waiting: deque[CollectionChange], name: str
) -> tuple[int, bool]:
    """The next change of that object; the test's own time limit ends the wait."""
    while True:
        while waiting:
            each = waiting.popleft()
            if each.item["metadata"]["name"] == name:
                return each.collection, each.deleted
        waiting.extend(await anext(changes))
