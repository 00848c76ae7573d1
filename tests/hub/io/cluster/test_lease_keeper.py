"""Who is the hub, in a real API server: taken, kept, waited for, lost, given back; the number only rises."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.support.edges.upstream import until
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

from fairlead_hub import leadership
from fairlead_hub.io.cluster import lease_keeper
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.cluster.lease_keeper import LeaseKeeper
from fairlead_hub.leadership import HolderPod
from fairlead_wire.backoff import Backoff

CONTAINER = {"name": "hub", "image": "hub"}


class Keeper(LeaseKeeper):
    """Remembers what it heard."""

    def __init__(self, kube: Kube, namespace: str, identity: str, pod: HolderPod | None = None) -> None:
        self.lost: list[str] = []
        self.doubts: list[float] = []
        self.skipped = 0.0
        super().__init__(
            kube,
            namespace=namespace,
            identity=identity,
            on_lost=self.lost.append,
            clock=lambda: lease_keeper.boot_time() + self.skipped,
            pod=pod,
        )
        self.subscribe(lambda: self.doubts.append(self.skipped))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_keeper, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(leadership, "RENEW_SECONDS", 0.02)


def path(namespace: str) -> str:
    return f"apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{leadership.NAME}"


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
    assert there["spec"]["holderIdentity"] == "hub-a" and leadership.fence_of(there) == 1


async def test_a_restart_takes_over_at_once_under_a_higher_number(client: Kube, namespace: str) -> None:
    """The same identity does not wait for itself; the number tells the lives apart."""
    await Keeper(client, namespace, "hub-a").acquire()
    looked = client.requests["GET"]
    assert await Keeper(client, namespace, "hub-a").acquire() == 2
    assert client.requests["GET"] == looked + 1, "who waits looks again"


async def test_a_second_hub_waits_until_the_first_gives_it_back(
    client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it need not wait for the time to run out."""
    monkeypatch.setattr(leadership, "LEASE_SECONDS", 3600)
    monkeypatch.setattr(leadership, "ABANDONED_SECONDS_MAX", 3600.0)
    first, second = Keeper(client, namespace, "hub-a"), Keeper(client, namespace, "hub-b")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    requests = client.requests["GET"]
    await until(lambda: client.requests["GET"] > requests + 2)
    assert not waiting.done() and not second.valid
    await first.release()
    async with asyncio.timeout(100):
        assert await waiting == 2


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Lease lasts longer than any test."""
    monkeypatch.setattr(leadership, "LEASE_SECONDS", 3600)
    monkeypatch.setattr(leadership, "ABANDONED_SECONDS_MAX", 3600.0)


def pod_of_a_hub(cluster: Cluster, namespace: str) -> HolderPod:
    """A Pod that the API server has; nothing runs it."""
    metadata = {"name": "hub-a", "namespace": namespace}
    cluster.apply({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": [CONTAINER]}})
    found = cluster.get(f"/api/v1/namespaces/{namespace}/pods/hub-a")
    return HolderPod(namespace, "hub-a", found["metadata"]["uid"])


@pytest.mark.usefixtures("patient")
async def test_a_hub_whose_pod_is_gone_is_not_waited_for(cluster: Cluster, client: Kube, namespace: str) -> None:
    """Deleted by force it loses its credentials with its Pod, and cannot give the Lease back."""
    pod = await asyncio.to_thread(pod_of_a_hub, cluster, namespace)
    first, second = Keeper(client, namespace, "hub-a", pod), Keeper(client, namespace, "hub-b")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    requests = client.requests["GET"]
    await until(lambda: client.requests["GET"] > requests + 4)
    assert not waiting.done()
    delete = ("delete", "pod", "-n", namespace, pod.name, "--force", "--grace-period=0")
    await asyncio.to_thread(cluster.kubectl, *delete)
    async with asyncio.timeout(100):
        assert await waiting == 2
    async with keeping(first):  # it lives on, cut off from whoever deleted its Pod: it hears it at its next renewal
        await until(lambda: first.lost != [])
    assert second.valid and not first.valid


@pytest.mark.usefixtures("patient")
async def test_the_first_refused_renewal_ends_it(cluster: Cluster, client: Kube, namespace: str) -> None:
    """Not the one after: for so long it would write beside the hub that did not wait for it."""
    first = Keeper(client, namespace, "hub-a", HolderPod(namespace, "gone", "1"))
    await first.acquire()
    await Keeper(client, namespace, "hub-b").acquire()
    assert first.valid
    assert not await first._renew()
    assert first.lost == ["another hub holds the Lease"] and not first.valid


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"<html>no such page</html>"),
        (403, b'{"reason": "Forbidden", "message": "pods is forbidden"}'),
        (500, b""),
        (200, b"[]"),
        (200, b"{}"),
    ],
)
async def test_a_response_that_is_not_about_the_pod_changes_nothing(
    cluster: Cluster, namespace: str, status: int, body: bytes
) -> None:
    """The right to ask may be missing, and something else may answer in the API server's place."""
    async with ApiFront(cluster) as front:
        client = front.client()
        await Keeper(client, namespace, "hub-a", HolderPod(namespace, "hub-a", "1")).acquire()
        front.answer("GET", "/pods/hub-a", status=status, body=body, times=None)
        waiting = asyncio.create_task(Keeper(client, namespace, "hub-b").acquire())

        def asked() -> int:
            return sum("/pods/hub-a" in path for _, path in front.requests)

        await until(lambda: asked() > 2)
        assert not waiting.done()
        waiting.cancel()


async def test_what_was_given_back_is_not_taken_again(client: Kube, namespace: str) -> None:
    """By a number that an edge knew, for which the Lease was being raised while the hub ended."""

    class Ending(Keeper):
        async def _get(self) -> dict[str, Any] | None:
            found = await super()._get()
            if self.fence and self.valid:
                await self.release()
            return found

    keeper = Ending(client, namespace, "hub-a")
    await keeper.acquire()
    await keeper.raise_to(7)
    assert not keeper.valid and not leadership.holder_of(await read(client, namespace))
    assert keeper.lost == []


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
    assert (leadership.fence_of(after), keeper.lost) == (1, [])


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
    assert leadership.fence_of(await read(client, namespace)) == 2
    assert keeper.lost == []


async def test_changed_by_another_it_is_looked_at_again(client: Kube, namespace: str) -> None:
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
    assert leadership.fence_of(await read(client, namespace)) == 42


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
    """No hub can take over meanwhile: edges are served on, but not for ever without renewal."""
    monkeypatch.setattr("fairlead_hub.io.cluster.kube.BACKOFF", Backoff(0.001, 5.0))
    async with ApiFront(cluster) as front:
        keeper = Keeper(front.client(), namespace, "hub-a")
        await keeper.acquire()
        front.answer("PUT", "leases", status=503, times=None)
        async with keeping(keeper):
            await until(lambda: front.seen("PUT", "leases") > 2)
            assert keeper.valid and keeper.lost == []
            left = keeper.seconds_left
            front.pass_everything()
            await until(lambda: keeper.seconds_left > left)


async def test_after_a_pause_it_asks_before_it_writes(cluster: Cluster, namespace: str) -> None:
    """Stopped or suspended for longer than the Lease lasts; no other hub took over, so it goes on."""
    async with ApiFront(cluster) as front:
        keeper = Keeper(front.client(), namespace, "hub-a")
        await keeper.acquire()
        keeper.skipped += 40
        assert not keeper.valid and not keeper.may_send()
        assert keeper.doubts == [40]
        seen = len(front.requests)
        async with keeping(keeper):
            await until(keeper.may_send)
        assert front.requests[seen][0] == "GET", "what it remembers is not written"
        assert keeper.valid and keeper.lost == [] and keeper.fence == 1


async def test_replaced_in_a_pause_it_writes_nothing(cluster: Cluster, client: Kube, namespace: str) -> None:
    """Not the Lease either, and it does not give back what is another's."""
    async with ApiFront(cluster) as front:
        old, new = Keeper(front.client(), namespace, "hub-a"), Keeper(client, namespace, "hub-b")
        await old.acquire()
        waiting = asyncio.create_task(new.acquire())
        await until(lambda: client.requests.get("GET", 0) > 1)
        new.skipped += 12
        assert await waiting == 2
        puts = front.seen("PUT", "leases") + front.seen("POST", "leases")
        old.skipped += 40
        async with keeping(old):
            await until(lambda: old.lost)
        assert not old.may_send() and not old.valid
        await old.release()
        assert front.seen("PUT", "leases") + front.seen("POST", "leases") == puts
    assert (await read(client, namespace))["spec"]["holderIdentity"] == "hub-b"


async def test_what_was_lost_is_not_given_back(client: Kube, namespace: str) -> None:
    """It would be the successor's."""
    keeper = Keeper(client, namespace, "hub-a")
    await keeper.acquire()
    taken = await read(client, namespace)
    taken["spec"]["holderIdentity"] = "hub-b"
    await client.request("PUT", path(namespace), taken)
    async with keeping(keeper):
        await until(lambda: keeper.lost)
    await keeper.release()
    assert (await read(client, namespace))["spec"]["holderIdentity"] == "hub-b"


async def test_a_renewal_that_crossed_the_end_does_not_keep_it(client: Kube, namespace: str) -> None:
    """The answer of the last one was not waited for: without a second look its successor waited 11 s."""
    keeper = Keeper(client, namespace, "hub-a")
    await keeper.acquire()
    there = await read(client, namespace)
    crossed = leadership.renewed(there, identity="hub-a", wall=1.0, fence=keeper.fence)
    await client.request("PUT", path(namespace), crossed)
    await keeper.release()
    assert leadership.holder_of(await read(client, namespace)) == "" and not keeper.valid


async def test_a_successor_that_crossed_the_end_keeps_it(client: Kube, namespace: str) -> None:
    """It is not given back for another."""
    keeper = Keeper(client, namespace, "hub-a")
    await keeper.acquire()
    await Keeper(client, namespace, "hub-a").acquire()
    await keeper.release()
    there = await read(client, namespace)
    assert (leadership.holder_of(there), leadership.fence_of(there)) == ("hub-a", 2)


@pytest.mark.parametrize("text", ["9999999999999999", "9007199254740993", "4000000000000000", "none", "0"])
async def test_an_edited_number_is_repaired(client: Kube, namespace: str, text: str) -> None:
    """While it is held, and before it is taken."""
    keeper = Keeper(client, namespace, "hub-a")
    await keeper.acquire()
    edited = await read(client, namespace)
    edited["metadata"]["annotations"][leadership.FENCE_ANNOTATION] = text
    await client.request("PUT", path(namespace), edited)
    async with keeping(keeper):
        await until(lambda: keeper.fence == 2)
    assert (await read(client, namespace))["metadata"]["annotations"][leadership.FENCE_ANNOTATION] == "2"
    assert keeper.lost == []
    assert await Keeper(client, namespace, "hub-a").acquire() == 3


async def test_full_transitions_let_the_next_hub_in(client: Kube, namespace: str) -> None:
    """The API server would refuse one more."""
    keeper = Keeper(client, namespace, "hub-a")
    await keeper.acquire()
    edited = await read(client, namespace)
    edited["spec"] |= {"leaseTransitions": 2**31 - 1, "leaseDurationSeconds": 2**31 - 1, "holderIdentity": ""}
    await client.request("PUT", path(namespace), edited)
    assert await Keeper(client, namespace, "hub-b").acquire() == 2


@pytest.mark.parametrize(
    "body", [b"<html>", b"", b"{}", b"[]", b'{"metadata":{"name":"fairlead-hub"}}', b'{"kind":"Status"}']
)
async def test_an_answer_that_is_no_lease_is_as_no_answer(cluster: Cluster, namespace: str, body: bytes) -> None:
    """At the first look, when it is taken, and when it is renewed; nothing is written without a version."""
    async with ApiFront(cluster) as front:
        keeper = Keeper(front.client(), namespace, "hub-a")
        front.answer("GET", "leases", body=body, times=2)
        front.answer("POST", "leases", body=body)
        assert await keeper.acquire() == 1
        async with keeping(keeper):
            front.answer("PUT", "leases", body=body, times=2)
            front.answer("GET", "leases", body=body, times=2)
            await until(lambda: front.seen("PUT", "leases") > 4)
        assert keeper.lost == []


async def test_giving_it_back_while_the_server_is_away(cluster: Cluster, namespace: str) -> None:
    """A hub that ends while the API server is away ends all the same."""
    async with ApiFront(cluster) as front:
        keeper = Keeper(front.client(), namespace, "hub-a")
        await keeper.acquire()
        front.answer("PUT", "leases", status=503)
        await keeper.release()
        assert front.seen("PUT", "leases") == 1
