"""Reports written into an API server that answers this or that; never an older one over a newer one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core, Edge
from tests.support.hubs.live import body

from fairlead_hub.io.cluster import status_reports
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.cluster.status_reports import StatusReports
from fairlead_hub.io.io_counts import IoCounts
from fairlead_wire import message

PATH = "api/v1/namespaces/shop/configmaps/"
NODES = 'conflict with "fairlead-edge-edge-2" .status.a'
CLUSTER = 'conflict with "kubectl" .status.a'


class Api:
    """An API server with one version for each object; ``errors`` are answered first."""

    def __init__(self) -> None:
        self.versions = {"a": ("uid-a", "1"), "b": ("uid-b", "1")}
        self.errors: list[Exception] = []
        self.written: list[tuple[str, Any, bool]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def request(self, method: str, path: str, body_: Any = None, **more: Any) -> bytes:
        name = path.removeprefix(PATH).removesuffix("/status")
        if method == "GET":
            uid, version = self.versions[name]
            return msgspec.json.encode(body(name, uid=uid, version=version))
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        uid, version = self.versions[name]
        if (body_["metadata"]["uid"], body_["metadata"]["resourceVersion"]) != (uid, version):
            raise ApiRefused(409, "the object has been modified", "Conflict")
        self.versions[name] = uid, str(int(version) + 1)
        self.written.append((name, body_["status"], more["params"].get("force") == "true"))
        return b"{}"


class Site:
    def __init__(self) -> None:
        self.core, self.api, self.counts = Core("edge-1", "edge-2"), Api(), IoCounts()
        self.core.rule({**CONFIG_MAPS, "statusFromEdge": True})
        for name in "ab":
            self.core.put(name)
        self.reports = StatusReports(self.core.hub, self.api, counts=self.counts, clock=lambda: self.core.now)  # type: ignore[arg-type]
        self.edge = self.core.connect()
        self.edge.sent()

    def report(
        self, name: str = "a", status: Any = None, *, id: int = 1, edge: Edge | None = None, **more: Any
    ) -> None:
        content = msgspec.json.encode({"a": 1} if status is None else status)
        header = message.Report(**{"id": id, "resource": PATH + name, "uid": f"uid-{name}", **more})
        self.reports.accept((edge or self.edge).ref, header, content)

    def _answers(self, edge: Edge) -> list[Any]:
        return [each for each in edge.sent() if isinstance(each, message.Ack | message.Nack)]

    async def answer(self, edge: Edge | None = None) -> Any:
        """The next ack or nack."""
        async with asyncio.timeout(60):
            while not (found := self._answers(edge or self.edge)):  # noqa: ASYNC110 - frames are asked for, not told of
                await asyncio.sleep(0)
        [answer] = found
        return answer

    async def code(self) -> str:
        answer = await self.answer()
        return answer.code if isinstance(answer, message.Nack) else ""


@pytest.fixture
async def site() -> Site:
    return Site()


async def test_it_is_acknowledged_when_the_api_server_has_it(site: Site) -> None:
    site.api.gate.clear()
    site.report()
    await asyncio.sleep(0)
    assert [each for each in site.edge.sent() if isinstance(each, message.Ack)] == []
    site.api.gate.set()
    assert await site.answer() == message.Ack(parent_id=1)
    assert site.api.written == [("a", {"a": 1}, False)] and site.counts.reported == {"written": 1}


async def test_an_object_that_others_changed_is_looked_at_and_written(site: Site) -> None:
    site.api.versions["a"] = "uid-a", "50"
    site.report()
    assert await site.code() == "" and len(site.api.written) == 1


async def test_an_object_made_anew_gets_nothing(site: Site) -> None:
    """Also before the hub's watch knows that it was."""
    site.api.versions["a"] = "uid-new", "60"
    site.report()
    assert await site.code() == "uid_changed" and site.api.written == []


@pytest.mark.parametrize(
    ("force", "conflict", "code", "forced"),
    [
        ("", CLUSTER, "conflict", False),
        ("cluster", CLUSTER, "", True),
        ("cluster", NODES, "conflict", False),
    ],
)
async def test_conflicts(site: Site, force: str, conflict: str, code: str, forced: bool) -> None:
    site.api.errors = [ApiRefused(409, "Apply failed", "Conflict", [conflict])]
    site.report(force=force)
    assert await site.code() == code and [each[2] for each in site.api.written] == ([forced] if forced else [])


async def test_who_forces_takes_it_at_once(site: Site) -> None:
    site.report(force="all")
    assert await site.code() == "" and site.api.written[0][2]


@pytest.mark.parametrize(
    ("error", "code", "permanent"),
    [
        (ApiRefused(403, "no right"), "forbidden", True),
        (ApiRefused(404, "no such thing"), "no_status", True),
        (ApiRefused(422, "a: must be text"), "invalid", True),
        (ApiRefused(413, "too large"), "too_large", True),
        (ApiRefused(400, "bad"), "refused", True),
        (ApiUnavailable("500: failed to create typed patch object (a)", status=500), "invalid", True),
        (ApiUnavailable("500: etcd", status=500), "api_unavailable", False),
        (ApiUnavailable("away"), "api_unavailable", False),
    ],
)
async def test_what_the_api_server_says(site: Site, error: Exception, code: str, permanent: bool) -> None:
    site.api.errors = [error]
    site.report()
    answer = await site.answer()
    assert (answer.code, answer.permanent) == (code, permanent) and site.counts.reported == {code: 1}
    events = [each for each in site.core.take_kube_events() if each.reason == "StatusFromEdgeRefused"]
    assert len(events) == permanent
    if permanent:
        assert (events[0].regarding.kind, events[0].regarding.uid) == ("ConfigMap", "uid-a")


async def test_a_newer_session_waits_for_what_an_older_one_has_under_way(site: Site) -> None:
    """So the older one never comes after the newer one."""
    site.api.gate.clear()
    site.report(status={"a": "old"})
    await asyncio.sleep(0)
    newer = site.core.connect()
    newer.sent()
    site.report(status={"a": "new"}, edge=newer)
    assert (await site.answer(newer)).code == "busy"
    site.api.versions["a"] = "uid-a", "70"  # what it was decided on is not the newest any more
    site.api.gate.set()
    async with asyncio.timeout(60):
        while site.counts.reported["object_busy"] == 0:  # noqa: ASYNC110 - the older session hears nothing any more
            await asyncio.sleep(0)
    assert site.api.written == []
    site.report(status={"a": "new"}, id=2, edge=newer)
    assert await site.answer(newer) == message.Ack(parent_id=2)
    assert [each[1] for each in site.api.written] == [{"a": "new"}]


async def test_a_node_has_so_many_a_second(site: Site) -> None:
    for number in range(int(status_reports.BURST)):
        site.report(id=number + 1)
        assert await site.code() == ""
    site.report(id=100)
    answer = await site.answer()
    assert (answer.code, answer.permanent, answer.scope) == ("rate", False, "hub") and answer.retry_after > 0
    site.core.now += 1.0
    site.report(id=101)
    assert await site.code() == ""


async def test_what_waits_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_reports, "REPORTS_MAX", 1)
    site.api.gate.clear()
    site.report("a")
    site.report("b", id=2)
    assert await site.code() == "busy"
    site.api.gate.set()
    assert await site.code() == ""


async def test_a_hub_that_may_not_write_any_more_does_not(site: Site) -> None:
    """Its Lease is over: another hub may serve the node."""
    asked: list[float] = []
    original: Callable[..., Any] = site.api.request

    async def request(*arguments: Any, **more: Any) -> bytes:
        asked.append(more["seconds"])
        found: bytes = await original(*arguments, **more)
        return found

    site.api.request = request  # type: ignore[method-assign]
    site.reports._seconds_left = lambda: 1.5
    site.report()
    assert await site.code() == "" and asked == [1.5]
