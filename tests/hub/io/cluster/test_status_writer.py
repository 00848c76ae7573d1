"""Records in a real API server: the client obeys what its twin promises, and the writer writes behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.support.edges.upstream import until
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

from fairlead_hub.hub import Hub
from fairlead_hub.io.cluster.api_access import ApiAccess
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.cluster.status_writer import KubeStatusClient, StatusWriter
from fairlead_hub.settings import HubSettings
from fairlead_hub.status import object_sync
from fairlead_hub.status.memory_status_client import MemoryStatusClient
from fairlead_hub.status.status_cache import Observed, Removal, StatusClient, StatusDocument, StatusWrite, WriteOutcome
from fairlead_hub.wall_clock import WallClock
from fairlead_wire.backoff import Backoff

ROOT = "apis/fairlead.dev/v1alpha1"
WRITE = "PATCH"


class Note(StatusDocument, frozen=True, kw_only=True):
    """A record of a ConfigMap whose state is one word."""

    version: str = "1"
    fence: int = 1
    created: bool = True

    def record(self) -> object_sync.Record:
        _, namespace, name = self.name
        return object_sync.Record(
            node=self.node, api_version="v1", kind="ConfigMap", namespace=namespace, object_name="a",
            uid=name.partition(".")[2], version=self.version, digest="", wanted_version=self.version, state="Synced",
        )  # fmt: skip

    def head(self) -> dict[str, Any] | None:
        return object_sync.head(self.record()) if self.created else None

    def status(self, observed: Observed | None) -> dict[str, Any]:
        return object_sync.status(self.record(), [], 1, "2026-11-20T00:00:00Z", self.fence)

    def is_written_in(self, observed: Observed) -> bool:
        return bool(observed.status.get("objectResourceVersion") == self.version)


@pytest.fixture(params=["twin", "real"])
def status_client(request: pytest.FixtureRequest, defined: Cluster, client: Kube) -> StatusClient:
    return MemoryStatusClient() if request.param == "twin" else KubeStatusClient(client)


async def eventually(done: Callable[[], Awaitable[bool]]) -> None:
    """A definition that was changed is served so a moment later."""
    async with asyncio.timeout(100):
        while True:
            if await done():
                return
            await asyncio.sleep(0.05)


def note(namespace: str, uid: str = "u1", **fields: Any) -> Note:
    return Note(name=("objectsyncs", namespace, f"edge-1.{uid}"), node="edge-1", **fields)


def removal(namespace: str, uid: str = "u1") -> Removal:
    return Removal(name=("objectsyncs", namespace, f"edge-1.{uid}"), node="edge-1")


def version_of(observed: Observed | None) -> str:
    assert observed is not None
    return str(observed.status["objectResourceVersion"])


# ---- what client and twin have in common -----------------------------------------------------------


async def test_created_changed_and_removed(status_client: StatusClient, namespace: str) -> None:
    """Each write carries on from the one before."""
    answer, first = await status_client.put(note(namespace), None, 1)
    assert (answer, version_of(first)) == (WriteOutcome.WRITTEN, "1")
    answer, second = await status_client.put(note(namespace, version="2"), first, 1)
    assert (answer, version_of(second)) == (WriteOutcome.WRITTEN, "2")
    assert first is not None and second is not None and first.version != second.version
    assert await status_client.remove(removal(namespace), second, 1) is WriteOutcome.WRITTEN
    assert await status_client.remove(removal(namespace), second, 1) is WriteOutcome.GONE


async def test_a_stale_version_conflicts_and_shows_what_is_there(status_client: StatusClient, namespace: str) -> None:
    """So that the next write is decided on the truth."""
    _, first = await status_client.put(note(namespace), None, 1)
    await status_client.put(note(namespace, version="2"), first, 1)
    answer, there = await status_client.put(note(namespace, version="3"), first, 1)
    assert (answer, version_of(there)) == (WriteOutcome.CONFLICT, "2")
    assert (await status_client.put(note(namespace, version="3"), there, 1))[0] is WriteOutcome.WRITTEN


async def test_what_exists_already_is_a_conflict(status_client: StatusClient, namespace: str) -> None:
    """Our watch has not brought it yet."""
    await status_client.put(note(namespace), None, 1)
    answer, there = await status_client.put(note(namespace, version="2"), None, 1)
    assert (answer, version_of(there)) == (WriteOutcome.CONFLICT, "1")


async def test_a_newer_hubs_record_is_never_overwritten(status_client: StatusClient, namespace: str) -> None:
    """Seen or not: the fencing number decides."""
    _, first = await status_client.put(note(namespace), None, 1)
    _, newer = await status_client.put(note(namespace, fence=5), first, 5)
    assert (await status_client.put(note(namespace, version="9"), newer, 1))[0] is WriteOutcome.FENCED
    assert (await status_client.put(note(namespace, version="9"), first, 1))[0] is WriteOutcome.FENCED
    assert await status_client.remove(removal(namespace), newer, 1) is WriteOutcome.FENCED
    assert (await status_client.put(note(namespace, version="9", fence=5), newer, 5))[0] is WriteOutcome.WRITTEN


async def test_a_status_on_something_others_create_needs_it_to_exist(
    status_client: StatusClient, namespace: str
) -> None:
    """It is not brought back."""
    assert (await status_client.put(note(namespace, created=False), None, 1))[0] is WriteOutcome.GONE


# ---- the real one alone --------------------------------------------------------------------------


@pytest.fixture
def real(defined: Cluster, client: Kube) -> Iterator[KubeStatusClient]:
    yield KubeStatusClient(client)


async def test_a_record_is_found_by_node_and_says_what_it_is_about(
    real: KubeStatusClient, client: Kube, namespace: str
) -> None:
    """Labels, selectable field, spec and status as people read them."""
    await real.put(note(namespace), None, 1)
    listed = msgspec.json.decode(
        await client.get(
            f"{ROOT}/namespaces/{namespace}/objectsyncs",
            fieldSelector="spec.nodeName=edge-1",
            labelSelector="fairlead.dev/node=edge-1,fairlead.dev/kind=ConfigMap",
        )
    )
    [item] = listed["items"]
    assert (item["spec"]["objectName"], item["status"]["state"], item["status"]["fence"]) == ("a", "Synced", 1)


async def test_a_record_stays_small(defined: Cluster, real: KubeStatusClient, client: Kube, namespace: str) -> None:
    """The API server keeps who wrote what of a status in one piece: field by field that is half of the document.

    So do documents that were written under an older definition, from their next write on.
    """
    path = "apis/apiextensions.k8s.io/v1/customresourcedefinitions/objectsyncs.fairlead.dev"
    schema = "/spec/versions/0/schema/openAPIV3Schema/properties"

    async def define(op: str) -> None:
        atomic = {"value": "atomic"} if op == "add" else {}
        change = [{"op": op, "path": f"{schema}/{part}/x-kubernetes-map-type", **atomic} for part in ("spec", "status")]
        await client.request("PATCH", path, change, content_type="application/json-patch+json")

    async def fields(uid: str) -> int:
        raw = await client.get(f"{ROOT}/namespaces/{namespace}/objectsyncs/edge-1.{uid}")
        found = msgspec.json.decode(raw)["metadata"]["managedFields"]
        assert {each["manager"] for each in found} == {"fairlead-hub"}
        return len(msgspec.json.encode(found))

    async def written(uid: str) -> Observed:
        _, there = await real.put(note(namespace, uid), None, 1)
        for version in ("2", "3"):
            answer, there = await real.put(note(namespace, uid, version=version), there, 1)
            assert answer is WriteOutcome.WRITTEN
        assert there is not None
        return there

    async def anew(uid: str) -> int:
        """A record that was once written in one piece stays so: a changed definition shows in a new one only."""
        await client.request("DELETE", f"{ROOT}/namespaces/{namespace}/objectsyncs/edge-1.{uid}")
        await written(uid)
        return await fields(uid)

    await written("old")
    await define("remove")
    try:

        async def kept_by_field() -> bool:
            return await anew("old") > 900

        await eventually(kept_by_field)
        older = await fields("old")
    finally:
        await define("add")

    async def small() -> bool:
        return await anew("new") < 600

    await written("new")
    await eventually(small)
    raw = await client.get(f"{ROOT}/namespaces/{namespace}/objectsyncs/edge-1.old")
    there = Observed(version=msgspec.json.decode(raw)["metadata"]["resourceVersion"], generation=1, status={}, head={})
    assert (await real.put(note(namespace, "old", version="9"), there, 1))[0] is WriteOutcome.WRITTEN
    assert await fields("old") < older / 2


async def test_deleted_by_hand_is_gone(real: KubeStatusClient, client: Kube, namespace: str) -> None:
    """A write behind it says so instead of failing."""
    _, first = await real.put(note(namespace), None, 1)
    await client.request("DELETE", f"{ROOT}/namespaces/{namespace}/objectsyncs/edge-1.u1")
    assert (await real.put(note(namespace, version="2"), first, 1))[0] is WriteOutcome.GONE


async def test_a_namespace_that_goes_takes_nothing_new(real: KubeStatusClient) -> None:
    """Forbidden; it is tried again, ever slower, while it is wanted."""
    assert (await real.put(note("no-such-namespace"), None, 1))[0] is WriteOutcome.FORBIDDEN


async def test_nonsense_is_forbidden(real: KubeStatusClient, namespace: str) -> None:
    """The definition's schema refuses it; that is counted."""
    wrong = Note(name=("objectsyncs", namespace, "Not A Name.u1"), node="Not A Name")
    assert (await real.put(wrong, None, 1))[0] is WriteOutcome.FORBIDDEN


@pytest.fixture
async def front(defined: Cluster) -> AsyncIterator[ApiFront]:
    async with ApiFront(defined) as running:
        yield running


async def test_a_busy_api_server_is_tried_again(
    front: ApiFront, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost; the record stays wanted."""
    monkeypatch.setattr("fairlead_hub.io.cluster.kube.BACKOFF", Backoff(0.001, 5.0))
    front.answer("POST", "objectsyncs", status=503, times=None)
    status_client = KubeStatusClient(front.client())
    assert (await status_client.put(note(namespace), None, 1))[0] is WriteOutcome.RETRY
    front.pass_everything()
    assert (await status_client.put(note(namespace), None, 1))[0] is WriteOutcome.WRITTEN


# ---- the writer ----------------------------------------------------------------------------------


class Line:
    """A hub's core, a writer of what it wants written, and the time, moved by hand."""

    def __init__(self, target: StatusClient, *, fence: int = 1, **options: Any) -> None:
        self.hub = Hub(HubSettings(security="insecure"), name="h", fence=fence, clock=WallClock(lambda: 0.0))
        self.cache, self.counts = self.hub.status_cache, self.hub.counts
        self.fence, self.may_write, self.now = fence, True, 0.0
        self.fenced: list[int] = []
        given: dict[str, Any] = {"in_flight": 4, "may_write": lambda: self.may_write, **options}
        self.writer = StatusWriter(
            self.hub.documents,
            target,
            clock=lambda: self.now,
            fence=lambda: self.fence,
            on_fenced=self.fenced.append,
            **given,
        )

    def take(self) -> list[StatusWrite]:
        return self.hub.take_ready(self.now).documents

    def push(self) -> None:
        """As ``ReadyLoop`` does when the writer is idle."""
        assert self.writer.is_idle
        self.writer.push(self.take())

    async def flush(self) -> None:
        await self.writer.write(self.take())


async def test_everything_dirty_is_written_some_at_a_time(real: KubeStatusClient, client: Kube, namespace: str) -> None:
    """Many records, few requests beside each other; what was replaced before is written once."""
    line = Line(real)
    for n in range(12):
        line.cache.want(note(namespace, f"u{n}"))
        line.cache.want(note(namespace, f"u{n}", version="2"))
    await line.flush()
    assert len(line.cache) == 0
    assert {version_of(each) for each in line.cache.observed.values()} == {"2"}
    assert line.counts.status_writes == {"written": 12}
    assert client.requests == {"POST": 12, "PATCH": 12}


async def test_a_conflict_is_decided_anew(namespace: str) -> None:
    """The status was changed behind our back: it is set right with the next write."""
    twin = MemoryStatusClient()
    line = Line(twin)
    await twin.put(note(namespace), None, 1)
    line.cache.want(note(namespace, version="7"))
    await line.flush()
    await line.flush()
    assert version_of(twin.documents[note(namespace).name]) == "7"
    assert line.counts.status_writes == {"conflict": 1, "written": 1}


async def test_deleted_by_hand_between_watch_and_write_is_written_anew(
    real: KubeStatusClient, client: Kube, namespace: str
) -> None:
    """A deleted document does not break the line."""
    line = Line(real)
    line.cache.want(note(namespace))
    await line.flush()
    await client.request("DELETE", f"{ROOT}/namespaces/{namespace}/objectsyncs/edge-1.u1")
    line.cache.want(note(namespace, version="2"))
    await line.flush()
    await line.flush()
    assert version_of(line.cache.observed[note(namespace).name]) == "2"


async def test_a_newer_hub_stops_the_writer(namespace: str) -> None:
    """It hears the number it met; what it wanted stays wanted, in case the number is raised."""
    twin = MemoryStatusClient()
    await twin.put(note(namespace, fence=9), None, 9)
    line = Line(twin)
    line.cache.want(note(namespace, version="2"))
    await line.flush()
    assert line.fenced == [9]
    assert len(line.cache) == 1
    line.fence = 10
    await line.flush()
    await line.flush()
    assert version_of(twin.documents[note(namespace).name]) == "2"


async def test_what_is_refused_is_written_when_it_may_be(
    front: ApiFront, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Rights that are missing for a while cost that while; one line says it, for however many records."""
    front.answer("POST", "objectsyncs", status=403, body=b'{"message":"no such right"}', times=None)
    line = Line(KubeStatusClient(front.client()))
    for n in range(20):
        line.cache.want(note(namespace, f"u{n}"))
    await line.flush()
    assert len(line.cache) == len(line.cache.refusals) == 20
    assert line.counts.status_writes == {"forbidden": 20}
    await line.flush()
    assert line.counts.status_writes == {"forbidden": 20}, "not before its time"
    line.now += 1.0
    await line.flush()
    assert line.counts.status_writes == {"forbidden": 28}, "a few at a time"
    oldest = line.cache.refusals.oldest()
    assert oldest is not None and "no such right" in oldest.reason
    assert [record.getMessage() for record in caplog.records].count("status_refused") == 1
    front.pass_everything()
    line.now += 2.0
    await line.flush()
    await line.flush()
    assert len(line.cache) == len(line.cache.refusals) == 0
    assert len(line.cache.observed) == 20


async def test_a_real_refusal_ends_with_a_role_binding(defined: Cluster, namespace: str) -> None:
    """An account without rights gets them: without a restart, and before the slow pass."""
    kube = defined
    kube.kubectl("create", "serviceaccount", "poor", "-n", namespace)
    token = kube.kubectl("create", "token", "poor", "-n", namespace).strip()
    poor = Kube(ApiAccess(kube.server, lambda: {"Authorization": f"Bearer {token}"}, ca=str(kube.ca)))
    try:
        line = Line(KubeStatusClient(poor))
        line.cache.want(note(namespace))
        await line.flush()
        assert len(line.cache.refusals) == 1
        rights = "--verb=create,patch,update,get", "--resource=objectsyncs,objectsyncs/status"
        for what in (("role", "r", *rights), ("rolebinding", "b", "--role=r", f"--serviceaccount={namespace}:poor")):
            await asyncio.to_thread(kube.kubectl, "create", *what, "-n", namespace)

        async def written() -> bool:
            line.now += 30.0
            await line.flush()
            return len(line.cache) == 0

        for _ in range(200):
            if await written():
                break
            await asyncio.sleep(0.05)
        assert len(line.cache) == len(line.cache.refusals) == 0
    finally:
        await poor.close()


async def test_a_write_whose_answer_is_lost_is_not_written_twice(
    front: ApiFront, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is repeated, conflicts with itself, and is found to be there."""
    monkeypatch.setattr("fairlead_hub.io.cluster.kube.BACKOFF", Backoff(0.001, 5.0))
    arrived: list[int] = []

    async def lose(request: web.Request) -> web.StreamResponse:
        arrived.append((await front.pass_on(request)).status)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    line = Line(KubeStatusClient(front.client()))
    line.cache.want(note(namespace))
    await line.flush()
    front.answer_with(WRITE, "/status", lose)
    line.cache.want(note(namespace, version="2"))
    await line.flush()
    assert arrived == [200]
    assert len(line.cache) == 0 and version_of(line.cache.observed[note(namespace).name]) == "2"
    assert front.seen(WRITE, "/status") == 3, "the first, the lost one, and its repetition"
    assert line.counts.status_writes == {"written": 2}


async def test_an_api_server_that_is_away_is_asked_once_not_a_thousand_times(
    front: ApiFront, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the flush waits for the next one."""
    monkeypatch.setattr("fairlead_hub.io.cluster.kube.BACKOFF", Backoff(0.001, 5.0))
    front.answer("POST", "objectsyncs", status=503, times=None)
    line = Line(KubeStatusClient(front.client()), in_flight=1)
    for n in range(50):
        line.cache.want(note(namespace, f"u{n}"))
    await line.flush()
    assert line.counts.status_writes == {"retry": 1}
    assert len(line.cache) == 50
    front.pass_everything()
    await line.flush()
    assert len(line.cache) == 0


async def test_without_the_lease_nothing_is_written(namespace: str) -> None:
    """Until it is ours again."""
    twin = MemoryStatusClient()
    line = Line(twin)
    line.may_write = False
    line.cache.want(note(namespace))
    task = asyncio.create_task(line.writer.run(line.push, flush_seconds=0.01))
    try:
        await asyncio.sleep(0.03)  # three times the flush interval
        assert twin.writes == 0
        line.may_write = True
        await until(lambda: twin.writes > 0)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_delete_names_what_it_deletes(defined: Cluster, client: Kube, namespace: str) -> None:
    """A record made anew since under the same name is another one."""
    async with ApiFront(defined) as front:
        status_client = KubeStatusClient(front.client())
        _, first = await status_client.put(note(namespace), None, 1)
        await client.request("DELETE", f"{ROOT}/namespaces/{namespace}/objectsyncs/edge-1.u1")
        _, second = await status_client.put(note(namespace), None, 1)
        assert first is not None and second is not None and first.uid != second.uid
        mixed = Observed(version=version_of(second), generation=1, status={}, head={}, uid=first.uid)
        assert await status_client.remove(removal(namespace), mixed, 1) is WriteOutcome.CONFLICT
        assert await status_client.remove(removal(namespace), second, 1) is WriteOutcome.WRITTEN


async def test_no_write_outlives_the_lease(defined: Cluster, namespace: str) -> None:
    """An API server that hangs gets no write of ours later than that; without the Lease nothing is even sent."""
    left = 0.3
    async with ApiFront(defined) as front:

        async def hang(_: web.Request) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError("the test does not wait so long")

        status_client = KubeStatusClient(front.client(), seconds_left=lambda: left)
        front.answer_with("POST", "objectsyncs", hang)
        assert await status_client.put(note(namespace), None, 1) == (WriteOutcome.RETRY, None)
        seen = front.seen("POST", "objectsyncs")
        left = 0.0
        assert await status_client.put(note(namespace), None, 1) == (WriteOutcome.RETRY, None)
        assert front.seen("POST", "objectsyncs") == seen


async def test_the_lease_is_asked_about_before_each_write(namespace: str) -> None:
    """Not once for all that is dirty."""
    twin = MemoryStatusClient()
    line = Line(twin, in_flight=1, may_write=lambda: twin.writes < 4)
    for number in range(5):
        line.cache.want(note(namespace, f"u{number}"))
    await line.flush()
    assert len(twin.documents) == 2 and len(line.cache) == 3


async def test_an_absurd_fence_stops_no_write(namespace: str) -> None:
    """The record is written over and counted; the others are written, too."""
    twin = MemoryStatusClient()
    line = Line(twin, fence=3)
    line.cache.want(note(namespace, "u1", fence=10**15))
    await line.flush()
    line.cache.want(note(namespace, "u1", version="2", fence=3))
    line.cache.want(note(namespace, "u2", fence=3))
    await line.flush()
    assert {each.fence for each in twin.documents.values()} == {3}
    assert (line.fenced, line.counts.absurd_fences, len(line.cache)) == ([], 1, 0)
