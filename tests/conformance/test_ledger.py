"""One suite for the ledger port: the memory twin and the real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.hubs.hub import CRDS

from fairlead_hub.io.cluster import api_access
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.cluster.status_writer import KubeStatusClient
from fairlead_hub.status import object_sync, status_cache
from fairlead_hub.status.memory_status_client import MemoryStatusClient
from fairlead_hub.status.object_sync import Record
from fairlead_hub.status.status_cache import Observed, Removal, WriteOutcome

UID = "0f9a1c3e-0000-4000-8000-000000000001"


class Stored(status_cache.StatusDocument, frozen=True, kw_only=True):
    """A record with a state and a fence."""

    record: Record
    fence: int = 1

    def head(self) -> dict[str, Any]:
        return object_sync.head(self.record)

    def status(self, observed: Observed | None) -> dict[str, Any]:
        return object_sync.status(self.record, [], 1, "2026-11-20T00:00:00Z", self.fence)


@pytest.fixture(params=["memory", pytest.param("kubernetes", marks=pytest.mark.kube)])
async def target(request: pytest.FixtureRequest) -> AsyncIterator[tuple[status_cache.StatusClient, str]]:
    """A ledger, and a namespace in it."""
    if request.param == "memory":
        yield MemoryStatusClient(), "shop"
        return
    cluster = request.getfixturevalue("cluster")
    namespace = request.getfixturevalue("namespace")
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    kube = Kube(api_access.load(str(cluster.kubeconfig)))
    yield KubeStatusClient(kube), namespace
    await kube.close()


def document(namespace: str, state: object_sync.State = "Synced", fence: int = 1) -> Stored:
    record = Record(
        node="edge-1", api_version="v1", kind="ConfigMap", namespace=namespace, object_name="prices", uid=UID,
        version="7", digest="d" * 64, wanted_version="7", state=state,
    )  # fmt: skip
    name = ("objectsyncs", namespace, record.name)
    return Stored(name=name, node="edge-1", record=record, fence=fence)


async def test_created_then_changed(target: tuple[status_cache.StatusClient, str]) -> None:
    """The first write creates head and status, the second changes the status only; versions differ."""
    store, namespace = target
    answer, first = await store.put(document(namespace), None, 1)
    assert answer is WriteOutcome.WRITTEN and first is not None and first.status["state"] == "Synced"
    answer, second = await store.put(document(namespace, "Parked"), first, 1)
    assert answer is WriteOutcome.WRITTEN and second is not None
    assert second.status["state"] == "Parked" and second.version != first.version


async def test_a_stale_version_conflicts_and_shows_what_is_there(target: tuple[status_cache.StatusClient, str]) -> None:
    """Somebody wrote since: nothing is changed, the answer carries the truth."""
    store, namespace = target
    _, first = await store.put(document(namespace), None, 1)
    await store.put(document(namespace, "Parked"), first, 1)
    answer, there = await store.put(document(namespace, "Pending"), first, 1)
    assert answer is WriteOutcome.CONFLICT and there is not None and there.status["state"] == "Parked"


async def test_a_record_that_was_not_expected_conflicts(target: tuple[status_cache.StatusClient, str]) -> None:
    """It exists although our watch has not told yet."""
    store, namespace = target
    await store.put(document(namespace), None, 1)
    answer, there = await store.put(document(namespace, "Pending"), None, 1)
    assert answer is WriteOutcome.CONFLICT and there is not None


async def test_a_newer_hub_fences(target: tuple[status_cache.StatusClient, str]) -> None:
    """A status under a higher number is neither changed nor removed by an older hub."""
    store, namespace = target
    _, first = await store.put(document(namespace, fence=9), None, 9)
    assert first is not None
    assert (await store.put(document(namespace, "Parked"), first, 8))[0] is WriteOutcome.FENCED
    assert await store.remove(Removal(name=document(namespace).name, node="edge-1"), first, 8) is WriteOutcome.FENCED


async def test_removed_once_gone_twice(target: tuple[status_cache.StatusClient, str]) -> None:
    """Removing what is not there is what was wanted; changing it says that it is gone."""
    store, namespace = target
    _, first = await store.put(document(namespace), None, 1)
    removal = Removal(name=document(namespace).name, node="edge-1")
    assert await store.remove(removal, first, 1) is WriteOutcome.WRITTEN
    assert await store.remove(removal, None, 1) is WriteOutcome.GONE


async def test_a_status_on_something_others_create(target: tuple[status_cache.StatusClient, str]) -> None:
    """Without a head nothing is ever created."""
    store, namespace = target

    class Verdict(status_cache.StatusDocument, frozen=True, kw_only=True):
        def status(self, observed: Observed | None) -> dict[str, Any]:
            return {"state": "Synced"}

    verdict = Verdict(name=document(namespace).name, node="edge-1")
    assert await store.put(verdict, None, 1) == (WriteOutcome.GONE, None)


async def test_a_fence_that_cannot_be_is_written_over(target: tuple[status_cache.StatusClient, str]) -> None:
    """Quadrillions of hubs ahead: somebody edited it, and it must not stop the writing of all others."""
    store, namespace = target
    _, first = await store.put(document(namespace, fence=9_999_999_999_999_999), None, 1)
    assert first is not None and first.fence == 9_999_999_999_999_999
    answer, second = await store.put(document(namespace, "Parked", fence=3), first, 3)
    assert answer is WriteOutcome.WRITTEN and second is not None and second.fence == 3
    _, again = await store.put(document(namespace, fence=2**53), second, 3)
    assert await store.remove(Removal(name=document(namespace).name, node="edge-1"), again, 3) is WriteOutcome.WRITTEN


async def test_a_delete_is_of_the_version_it_was_decided_on(target: tuple[status_cache.StatusClient, str]) -> None:
    """Somebody wrote since: it is looked at again first."""
    store, namespace = target
    removal = Removal(name=document(namespace).name, node="edge-1")
    _, first = await store.put(document(namespace), None, 1)
    _, second = await store.put(document(namespace, "Parked"), first, 1)
    assert await store.remove(removal, first, 1) is WriteOutcome.CONFLICT
    assert await store.remove(removal, second, 1) is WriteOutcome.WRITTEN
    assert await store.remove(removal, None, 1) is WriteOutcome.GONE
