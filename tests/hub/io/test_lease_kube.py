"""Who is the hub, in a real API server: taken, kept, waited for, lost, given back; the number only rises."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.support.api_front import ApiFront
from tests.support.cluster import Cluster
from tests.support.upstream import until

from fairlead_hub import lease
from fairlead_hub.io import lease_kube
from fairlead_hub.io.kube import Kube
from fairlead_hub.io.lease_kube import LeaseKeeper


class Keeper(LeaseKeeper):
    """Remembers what it was told."""

    def __init__(self, kube: Kube, namespace: str, identity: str) -> None:
        self.lost: list[str] = []
        super().__init__(kube, namespace=namespace, identity=identity, on_lost=self.lost.append)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_kube, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.02)


def path(namespace: str) -> str:
    return f"apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease.NAME}"


async def read(client: Kube, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(await client.get(path(namespace)))
    return found


@contextlib.asynccontextmanager
async def keeping(keeper: LeaseKeeper) -> AsyncIterator[None]:
    task = asyncio.create_task(keeper.keep())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_the_first_hub_takes_it(client: Kube, namespace: str) -> None:
    """With its name and a number from one."""
    keeper = Keeper(client, namespace, "hub-a")
    assert not keeper.valid
    assert await keeper.acquire() == 1
    assert keeper.valid
    there = await read(client, namespace)
    assert there["spec"]["holderIdentity"] == "hub-a" and lease.fence_of(there) == 1


async def test_a_restart_takes_over_at_once_under_a_higher_number(client: Kube, namespace: str) -> None:
    """The same identity does not wait for itself; the number tells the lives apart."""
    await Keeper(client, namespace, "hub-a").acquire()
    async with asyncio.timeout(5):
        assert await Keeper(client, namespace, "hub-a").acquire() == 2


async def test_a_second_hub_waits_until_the_first_gives_it_back(client: Kube, namespace: str) -> None:
    """Then it need not wait for the time to run out."""
    first, second = Keeper(client, namespace, "hub-a"), Keeper(client, namespace, "hub-b")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    requests = client.requests["GET"]
    await until(lambda: client.requests["GET"] > requests + 2)
    assert not waiting.done() and not second.valid
    await first.release()
    async with asyncio.timeout(10):
        assert await waiting == 2


async def test_it_is_renewed_while_it_is_kept(client: Kube, namespace: str) -> None:
    """The time moves on, the number does not."""
    keeper = Keeper(client, namespace, "hub-a")
    await keeper.acquire()
    before = await read(client, namespace)
    async with keeping(keeper):
        puts = client.requests.get("PUT", 0)
        await until(lambda: client.requests.get("PUT", 0) > puts + 1)
    after = await read(client, namespace)
    assert after["spec"]["renewTime"] > before["spec"]["renewTime"]
    assert (lease.fence_of(after), keeper.lost) == (1, [])


async def test_taken_by_another_it_is_lost(client: Kube, namespace: str) -> None:
    """The conflict makes us look, and what we see makes us stop."""
    keeper = Keeper(client, namespace, "hub-a")
    await keeper.acquire()
    taken = await read(client, namespace)
    taken["spec"]["holderIdentity"] = "hub-b"
    await client.request("PUT", path(namespace), taken)
    async with keeping(keeper):
        await until(lambda: keeper.lost)
    assert keeper.lost == ["another hub holds the Lease"]


async def test_deleted_by_hand_it_is_made_again_under_a_higher_number(client: Kube, namespace: str) -> None:
    """The number must not start again from one."""
    keeper = Keeper(client, namespace, "hub-a")
    await keeper.acquire()
    await client.request("DELETE", path(namespace))
    async with keeping(keeper):
        await until(lambda: keeper.fence == 2)
    assert lease.fence_of(await read(client, namespace)) == 2
    assert keeper.lost == []


async def test_changed_by_somebody_else_it_is_looked_at_again(client: Kube, namespace: str) -> None:
    """A label is no take-over: 409, read, go on."""
    keeper = Keeper(client, namespace, "hub-a")
    await keeper.acquire()
    labelled = await read(client, namespace)
    labelled["metadata"]["labels"] = {"seen": "yes"}
    changed = msgspec.json.decode(await client.request("PUT", path(namespace), labelled))
    async with keeping(keeper):
        await until(lambda: keeper._current["metadata"]["resourceVersion"] > changed["metadata"]["resourceVersion"])
    assert (await read(client, namespace))["metadata"]["labels"] == {"seen": "yes"}
    assert keeper.lost == []


async def test_a_number_seen_elsewhere_is_raised_above(client: Kube, namespace: str) -> None:
    """An edge has obeyed 41: the API server was restored, and we are the hub all the same."""
    keeper = Keeper(client, namespace, "hub-a")
    await keeper.acquire()
    assert await keeper.raise_to(42) == 42
    assert lease.fence_of(await read(client, namespace)) == 42


async def test_a_number_of_a_newer_hub_means_stop(client: Kube, namespace: str) -> None:
    """The Lease says who is right."""
    old, new = Keeper(client, namespace, "hub-a"), Keeper(client, namespace, "hub-b")
    await old.acquire()
    await old.release()
    await new.acquire()
    assert await old.raise_to(new.fence + 1) == old.fence
    assert old.lost == ["another hub holds the Lease"]


async def test_busy_or_forbidden_it_is_waited_for(cluster: Cluster, namespace: str) -> None:
    """A hub that may not read the Lease yet does not end; it takes it as soon as it can."""
    async with ApiFront(cluster) as front:
        front.answer("GET", "leases", status=403)
        front.answer("GET", "leases", status=429, headers={"Retry-After": "0"})
        keeper = Keeper(front.client(), namespace, "hub-a")
        assert await keeper.acquire() == 1


async def test_an_api_server_that_is_away_is_outlived(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can take over meanwhile: edges are served on, but not for ever without renewal."""
    monkeypatch.setattr("fairlead_hub.io.kube.BACKOFF_SECONDS", 0.001)
    async with ApiFront(cluster) as front:
        keeper = Keeper(front.client(), namespace, "hub-a")
        await keeper.acquire()
        front.answer("PUT", "leases", status=503, times=None)
        async with keeping(keeper):
            await until(lambda: front.seen("PUT", "leases") > 2)
            assert keeper.valid and keeper.lost == []
            renewed = keeper._renewed_at
            front.pass_everything()
            await until(lambda: keeper._renewed_at > renewed)


async def test_giving_it_back_to_nobody(cluster: Cluster, namespace: str) -> None:
    """A hub that ends while the API server is away ends all the same."""
    async with ApiFront(cluster) as front:
        keeper = Keeper(front.client(), namespace, "hub-a")
        await keeper.acquire()
        front.answer("PUT", "leases", status=503)
        await keeper.release()
        assert front.seen("PUT", "leases") == 1
