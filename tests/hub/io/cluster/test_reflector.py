"""List and watch against a real API server: complete lists, and what becomes of a watch that ends or is refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.support.edges.upstream import until
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

from fairlead_hub.cluster import watch_health
from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.io.cluster import reflector
from fairlead_hub.io.cluster.api_access import ApiAccess
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.cluster.reflector import Reflector
from fairlead_hub.status import object_sync
from fairlead_wire.link import peer_json


class _Map(msgspec.Struct):
    metadata: dict[str, Any]
    data: dict[str, str] = {}


_map = msgspec.json.Decoder(_Map)


class Heard:
    """A sink that keeps what it heard."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.names: list[str] = []
        self.lists: list[set[str]] = []
        self.lost = self.restored = 0
        self.unlistable: list[str] = []
        self.served = True
        self.restarts: list[str] = []
        self.freshness = WatchHealth()
        self.reflector: Reflector

    def on_object(self, raw: msgspec.Raw) -> str:
        body = peer_json.decode(_map, bytes(raw))
        self.objects[body.metadata["name"]] = body.data
        self.names.append(body.metadata["name"])
        return str(body.metadata["name"])

    def on_gone(self, raw: msgspec.Raw) -> None:
        self.objects.pop(_map.decode(raw).metadata["name"])

    def on_listed(self, identities: set[str], version: str) -> None:
        self.lists.append(identities)
        for name in self.objects.keys() - identities:
            del self.objects[name]

    def on_lost(self, restored: bool) -> None:
        self.lost += 1
        self.restored += restored

    def on_unlistable(self, reason: str, *, served: bool) -> None:
        self.unlistable.append(reason)
        self.served = served


@pytest.fixture
async def front(cluster: Cluster) -> AsyncIterator[ApiFront]:
    async with ApiFront(cluster) as running:
        yield running


@contextlib.asynccontextmanager
async def running(kube: Kube, root: str, **options: Any) -> AsyncIterator[Heard]:
    heard = Heard()
    options = {"restarted": heard.restarts.append, "retry_seconds": 0.02, "freshness": heard.freshness, **options}
    one = heard.reflector = Reflector(kube, root, heard, **options)
    task = asyncio.create_task(one.run())
    try:
        yield heard
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def maps(namespace: str) -> str:
    return f"api/v1/namespaces/{namespace}/configmaps"


async def put(client: Kube, namespace: str, name: str, **data: str) -> None:
    await client.request("POST", maps(namespace), {"metadata": {"name": name}, "data": data})


def own(heard: Heard) -> set[str]:
    return heard.objects.keys() - {"kube-root-ca.crt"}


async def test_what_is_there_is_listed_and_what_changes_is_reported(client: Kube, namespace: str) -> None:
    """One complete list, then every change in order."""
    await put(client, namespace, "a", n="1")
    async with running(client, maps(namespace)) as heard:
        await until(lambda: heard.lists)
        assert "a" in heard.lists[0]
        await put(client, namespace, "b", n="1")
        await until(lambda: "b" in heard.objects)
        await client.request("PUT", f"{maps(namespace)}/a", {"metadata": {"name": "a"}, "data": {"n": "2"}})
        await until(lambda: heard.objects["a"] == {"n": "2"})
        await client.request("DELETE", f"{maps(namespace)}/b")
        await until(lambda: "b" not in heard.objects)
        assert (len(heard.lists), heard.restarts) == (1, [])


async def test_a_long_list_comes_in_chunks_and_counts_when_it_is_whole(
    front: ApiFront, client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No chunk alone says what is gone."""
    monkeypatch.setattr(reflector, "CHUNK", 2)
    for n in range(5):
        await put(client, namespace, f"c{n}")
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.lists)
        assert {f"c{n}" for n in range(5)} <= heard.lists[0]
        assert len(heard.lists) == 1
        assert front.seen("GET", "continue=") >= 2


async def test_only_what_was_asked_for(client: Kube, namespace: str) -> None:
    """Parameters select, in the list and in the watch."""
    async with running(client, maps(namespace), params={"labelSelector": "mine=yes"}) as heard:
        await until(lambda: heard.lists)
        await put(client, namespace, "other")
        await client.request("POST", maps(namespace), {"metadata": {"name": "mine", "labels": {"mine": "yes"}}})
        await until(lambda: heard.objects)
        assert set(heard.objects) == {"mine"}


async def test_a_version_too_old_is_listed_anew(defined: Cluster, client: Kube, namespace: str) -> None:
    """The API server's own 410, from before it served this kind; what vanished meanwhile is found by the list."""
    root = f"apis/fairlead.dev/v1alpha1/namespaces/{namespace}/objectsyncs"

    def record(name: str) -> dict[str, Any]:
        return object_sync.head(
            object_sync.Record(
                node="edge-1", api_version="v1", kind="ConfigMap", namespace=namespace, object_name=name, uid=name,
                version="", digest="", wanted_version="1", state="Pending",
            )
        )  # fmt: skip

    async with ApiFront(defined) as front:

        async def as_of_long_ago(request: web.Request) -> web.StreamResponse:
            await client.request("DELETE", f"{root}/edge-1.a")
            await client.request("POST", root, record("b"))
            return await front.pass_on(request.clone(rel_url=request.rel_url.update_query(resourceVersion="1")))

        await client.request("POST", root, record("a"))
        front.answer_with("GET", "watch=1", as_of_long_ago)
        async with running(front.client(), root) as heard:
            await until(lambda: len(heard.lists) == 2)
            assert set(heard.objects) == {"edge-1.b"}
            assert (heard.lost, heard.restarts) == (1, ["version_lost"])


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (410, b'{"code": 410, "reason": "Expired"}'),
        (200, b'{"type":"ERROR","object":{"code":410,"message":"too old resource version"}}\n'),
    ],
    ids=["as a status", "as an event"],
)
async def test_410_in_both_its_forms(front: ApiFront, namespace: str, status: int, body: bytes) -> None:
    """Nothing is certain until the new list is in."""
    front.answer("GET", "watch=1", status=status, body=body)
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: len(heard.lists) == 2)
        assert (heard.lost, heard.restarts) == (1, ["version_lost"])


async def test_a_list_that_outlives_its_version_starts_over(
    front: ApiFront, client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """410 between two chunks: half a list is none."""
    monkeypatch.setattr(reflector, "CHUNK", 1)
    await put(client, namespace, "a")
    await put(client, namespace, "b")
    front.answer("GET", "continue=", status=410, body=b'{"code": 410}')
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.lists)
        assert len(heard.lists) == 1 and {"a", "b"} <= heard.lists[0]
        assert heard.restarts == ["version_lost"]


async def test_a_broken_watch_goes_on_where_it_was(front: ApiFront, client: Kube, namespace: str) -> None:
    """Whatever happened meanwhile comes with the next watch: nothing is listed, a delete is not missed."""
    await put(client, namespace, "a")
    async with running(front.client(), maps(namespace)) as heard:
        for number in range(5):
            await until(lambda: heard.lists and front.watches)
            await put(client, namespace, f"b{number}")
            front.cut()
            await client.request("DELETE", f"{maps(namespace)}/b{number}")
            await put(client, namespace, f"c{number}")
            await until(partial(lambda names: own(heard) == names, {"a", *(f"c{each}" for each in range(number + 1))}))
        assert (len(heard.lists), heard.lost) == (1, 0)
        assert front.seen("GET", "limit=") == 1


async def test_behind_an_absence_the_server_is_asked_how_far_it_is(
    front: ApiFront, client: Kube, namespace: str
) -> None:
    """It is where we are, or beyond: the watch goes on, nothing is listed."""
    await put(client, namespace, "a")
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.lists and front.watches)
        front.answer("GET", "watch=1", status=503, times=2)
        front.cut()
        await put(client, namespace, "b")
        await until(lambda: own(heard) == {"a", "b"})
        assert (len(heard.lists), front.seen("GET", "limit=1&") + front.seen("GET", "limit=500")) == (1, 1)
        assert heard.restarts.count("unavailable") == 2


async def test_a_restored_server_is_listed_anew(front: ApiFront, client: Kube, namespace: str) -> None:
    """It is behind what we have seen: a watch from there would stay silent until it gets there."""
    await put(client, namespace, "a")
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.lists and front.watches)
        front.answer("GET", "watch=1", status=503)
        older = b'{"metadata":{"resourceVersion":"1"},"items":[]}'

        async def behind(request: web.Request) -> web.Response:
            assert request.query["limit"] == "1"
            return web.Response(body=older)

        front.answer_with("GET", "limit=1", behind)
        front.cut()
        await until(lambda: len(heard.lists) == 2)
        assert (heard.lost, heard.restored) == (1, 1)
        assert "restored" in heard.restarts


async def test_a_server_that_was_away_for_long_may_have_been_restored(
    front: ApiFront, client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then it may even have passed our version: what it says is believed only after that."""
    monkeypatch.setattr(watch_health, "AWAY_SECONDS_MAX", 0.0)
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.lists and front.watches)
        front.answer("GET", "watch=1", status=503)
        front.cut()
        await until(lambda: len(heard.lists) == 2 and front.watches)
        assert (heard.lost, heard.restored) == (1, 1)


async def test_a_server_that_refused_the_list_may_have_been_restored(
    front: ApiFront, client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has just started answers 404 for what our definitions define."""
    monkeypatch.setattr(reflector, "UNLISTABLE_RETRY_SECONDS", 0.05)
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.lists and front.watches)
        front.answer("GET", "configmaps", status=404, times=3)
        front.cut()
        await until(lambda: len(heard.lists) == 2 and front.watches)
        assert (heard.unlistable != [], heard.restored) == (True, 1)


async def test_a_list_from_before_our_version_is_of_a_restored_server(
    front: ApiFront, client: Kube, namespace: str
) -> None:
    """It was never away, as far as we saw: another one took its place."""
    await put(client, namespace, "a")
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.lists and front.watches)
        front.answer("GET", "limit=500", body=b'{"metadata":{"resourceVersion":"1"},"items":[]}')
        front.answer("GET", "watch=1", status=410)
        front.cut()
        await until(lambda: len(heard.lists) == 2)
        assert heard.restored == 1


async def test_a_silent_watch_is_opened_again(
    front: ApiFront, client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is dead and does not say so: what was missed comes with the next one."""
    monkeypatch.setattr(watch_health, "SILENCE_SECONDS_MIN", 0.1)
    silent = asyncio.Event()

    async def mute(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        silent.set()
        await asyncio.Event().wait()
        return response

    front.answer_with("GET", "watch=1", mute)
    dead: list[int] = []
    async with running(front.client(), maps(namespace), missed=lambda: dead.append(1)) as heard:
        await silent.wait()
        await put(client, namespace, "a")
        await until(lambda: own(heard) == {"a"})
        assert (len(heard.lists), heard.restarts[:1]) == (1, ["silent"])
        assert dead, "others hear that connections die"


async def test_a_watch_that_is_suspected_is_opened_again_soon(
    front: ApiFront, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had been quiet for long, and would have been left alone for longer."""
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: front.watches)
        one = heard.reflector
        one._pace.silence_seconds = 3600.0
        monkeypatch.setattr(watch_health, "SILENCE_SECONDS_MIN", 0.0)
        one.suspect()
        await until(lambda: "silent" in heard.restarts)
        assert len(heard.lists) == 1


async def test_a_watch_that_ends_already_may_be_suspected_at_every_moment(
    front: ApiFront, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many were silent, and one of them breaks while another is being ended: that is no reason to die."""
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: front.watches)
        monkeypatch.setattr(watch_health, "SILENCE_SECONDS_MIN", 0.0)
        while "silent" not in heard.restarts:
            heard.reflector.suspect()
            await asyncio.sleep(0)
        monkeypatch.undo()
        await until(lambda: front.watches)


async def test_a_watch_that_is_not_answered_is_asked_for_again(
    front: ApiFront, client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The opening has a deadline of its own; meanwhile the collection is said to be stale."""
    monkeypatch.setattr(reflector, "OPENING_SECONDS", 0.1)

    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    front.answer_with("GET", "watch=1", never)
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.freshness.all())
        assert "no answer within" in heard.freshness.all()[0].reason
        await put(client, namespace, "a")
        await until(lambda: own(heard) == {"a"} and not heard.freshness.all())
        assert len(heard.lists) == 1


async def test_a_line_cut_in_the_middle_comes_again_whole(front: ApiFront, client: Kube, namespace: str) -> None:
    """Half a line at a calm end is no line and no error."""
    await put(client, namespace, "a")

    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":{"metadata":{"name":"hal')
        return response

    front.answer_with("GET", "watch=1", half, times=3)
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.restarts == ["ended"] * 3)
        await put(client, namespace, "b")
        await until(lambda: own(heard) == {"a", "b"})
        assert len(heard.lists) == 1


@pytest.mark.verify
async def test_a_long_retry_after_does_not_blind(front: ApiFront, client: Kube, namespace: str) -> None:
    """Ten minutes asked for, seconds waited; since when nothing is seen is reported."""
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.lists and front.watches)
        front.answer("GET", "watch=1", status=503, headers={"Retry-After": "600"})
        front.cut()
        await until(lambda: heard.freshness.all())
        await put(client, namespace, "a")
        await until(lambda: own(heard) == {"a"}, seconds=watch_health.RETRY_AFTER_SECONDS_MAX + 20)
        assert not heard.freshness.all()
        assert len(heard.lists) == 1


async def test_a_watch_that_timed_out_continues_where_it_was(
    front: ApiFront, client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No new list every five minutes for fifty thousand objects."""
    monkeypatch.setattr(reflector, "WATCH_SECONDS", 1)
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: front.seen("GET", "watch=1") >= 2)
        await put(client, namespace, "a")
        await until(lambda: "a" in heard.objects)
        assert (len(heard.lists), heard.restarts) == (1, [])


async def test_a_kind_that_may_not_be_listed_is_said_to_be_and_tried_again(
    cluster: Cluster, client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real 403: the reason reaches the sink; with the right granted it is listed without a restart."""
    monkeypatch.setattr(reflector, "UNLISTABLE_RETRY_SECONDS", 0.05)
    cluster.kubectl("create", "serviceaccount", "poor", "-n", namespace)
    token = cluster.kubectl("create", "token", "poor", "-n", namespace).strip()
    poor = Kube(ApiAccess(cluster.server, lambda: {"Authorization": f"Bearer {token}"}, ca=str(cluster.ca)))
    try:
        async with running(poor, maps(namespace)) as heard:
            await until(lambda: heard.unlistable)
            assert "403" in heard.unlistable[0] and "configmaps" in heard.unlistable[0] and heard.served
            assert heard.lists == [] and heard.lost == 0
            for what in (
                ("role", "reader", "--verb=list,watch", "--resource=configmaps"),
                ("rolebinding", "rich", "--role=reader", f"--serviceaccount={namespace}:poor"),
            ):
                await asyncio.to_thread(cluster.kubectl, "create", *what, "-n", namespace)
            await until(lambda: heard.lists)
    finally:
        await poor.close()


async def test_a_kind_that_is_not_served_is_unlistable(client: Kube) -> None:
    """404: its definition is not there (any more)."""
    async with running(client, "apis/example.com/v1/nothings") as heard:
        await until(lambda: heard.unlistable)
        assert "404" in heard.unlistable[0] and not heard.served


async def test_rights_lost_while_watching(front: ApiFront, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """403 on the watch after a good list: unlistable, and listed again when it may be."""
    monkeypatch.setattr(reflector, "UNLISTABLE_RETRY_SECONDS", 0.05)
    front.answer("GET", "watch=1", status=403, body=b'{"message": "no more"}')
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: len(heard.lists) == 2)
        assert ["no more" in reason for reason in heard.unlistable] == [True]


async def test_busy_is_waited_for(front: ApiFront, namespace: str) -> None:
    """429 with Retry-After on a watch: come back then, from the same version."""
    front.answer("GET", "watch=1", status=429, headers={"Retry-After": "0"})
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: front.watches)
        assert (heard.restarts, len(heard.lists), heard.lost) == (["unavailable"], 1, 0)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"nonsense\n", "malformed"),
        (b"<html><body>504</body></html>\n", "malformed"),
        (b'{"type": 1}\n', "malformed"),
        (b'{"type":"ERROR","object":{"code":500}}\n', "error"),
    ],
)
async def test_a_line_that_is_none_costs_another_try(front: ApiFront, namespace: str, line: bytes, name: str) -> None:
    """Never the task, and no list; only the third in a row shakes the trust in the version."""
    front.answer("GET", "watch=1", body=line)
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: front.watches)
        assert (heard.restarts, len(heard.lists)) == ([name], 1)
    front.answer("GET", "watch=1", body=line, times=3)
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: len(heard.lists) == 2)
        assert (heard.restarts, heard.lost) == ([name] * 3, 1)


async def test_a_list_that_is_none_is_tried_again(front: ApiFront, namespace: str) -> None:
    """A proxy answered in the API server's place."""
    front.answer("GET", "limit=", body=b"<html>")
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.lists)
        assert heard.restarts == ["malformed"] and "web page" in heard.unlistable[0]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"metadata":{}}', b'{"kind":"Status","metadata":{}}', b"\xff"])
async def test_what_is_no_list_takes_nothing_away(front: ApiFront, client: Kube, namespace: str, body: bytes) -> None:
    """An answer without a version or without items is no empty list."""
    await put(client, namespace, "a")
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.lists and front.watches)
        front.answer("GET", "limit=", body=body, times=2)
        front.answer("GET", "watch=1", status=410)
        front.cut()
        await until(lambda: len(heard.lists) == 2)
        assert heard.restarts.count("malformed") == 2
        assert "a" in heard.lists[1] and own(heard) == {"a"}


async def test_one_deep_object_among_others(front: ApiFront, namespace: str) -> None:
    """A decoder gives up on the whole list for its sake; the others are reported, and it is left to the sink."""
    deep = b'{"metadata":{"name":"deep"},"spec":%b1%b}' % (b'{"a":' * 1100, b"}" * 1100)
    good = b'{"metadata":{"name":"good"},"data":{}}'
    page = b'{"metadata":{"resourceVersion":"1"},"items":[%b,%b]}' % (deep, good)
    front.answer("GET", "limit=", body=page)
    front.answer("GET", "watch=1", body=b'{"type":"ADDED","object":%b}\n{"type":"ADDED","object":%b}\n' % (deep, good))
    async with running(front.client(), maps(namespace)) as heard:
        await until(lambda: heard.names.count("good") >= 2)
        assert "good" in heard.lists[0]


@pytest.mark.verify
async def test_an_api_server_that_is_killed_and_comes_back(cluster: Cluster, client: Kube, namespace: str) -> None:
    """A real one: what was created meanwhile arrives, the list is complete again."""
    await put(client, namespace, "a")
    async with running(client, maps(namespace)) as heard:
        await until(lambda: heard.lists)
        await asyncio.to_thread(cluster.restart_apiserver)
        await put(client, namespace, "b")
        await until(lambda: own(heard) == {"a", "b"}, seconds=120)
        # A server whose caches still fill may refuse to resume (410, 403): then a complete list follows.
        await until(lambda: not heard.lost or len(heard.lists) > 1)
        assert "a" in heard.lists[-1]
