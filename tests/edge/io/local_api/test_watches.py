"""Watches, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from tests.support.edges.edge_api import Api, event, serving
from tests.support.edges.held import config_map, put

from fairlead_edge.io.local_api import connections, watches
from fairlead_edge.objects.metastore import Remove
from fairlead_wire.objects import resource

PATH = "/api/v1/namespaces/shop/configmaps"
WATCH = f"{PATH}?watch=true"
GONE = Remove(resource=resource.parse("api/v1/namespaces/shop/configmaps/a"), uid="uid-a")


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with serving() as found:
        yield found


async def test_changes_after_a_list_are_sent_in_order(api: Api) -> None:
    await api.hold(put(config_map("a")))
    version = (await api.get(PATH))["metadata"]["resourceVersion"]
    watch = await api.watch(f"{WATCH}&resourceVersion={version}")
    await api.hold(put(config_map("b")), put(config_map("a", labels={"new": "yes"})), GONE)
    shown = [await event(watch) for _ in range(3)]
    assert [(each["type"], each["object"]["metadata"]["name"]) for each in shown] == [
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]
    assert [each["object"]["metadata"]["resourceVersion"] for each in shown] == ["1002", "1003", "1004"]
    watch.close()


async def test_changes_between_list_and_watch_are_sent(api: Api) -> None:
    version = (await api.get(PATH))["metadata"]["resourceVersion"]
    await api.hold(put(config_map("a")))
    watch = await api.watch(f"{WATCH}&resourceVersion={version}")
    assert (await event(watch))["type"] == "ADDED"
    watch.close()


@pytest.mark.parametrize("version", ["", "&resourceVersion=0"])
async def test_without_a_version_what_is_held_comes_first(api: Api, version: str) -> None:
    await api.hold(put(config_map("a")))
    watch = await api.watch(WATCH + version)
    assert (await event(watch))["object"]["metadata"]["name"] == "a"
    await api.hold(put(config_map("b")))
    assert (await event(watch))["object"]["metadata"]["name"] == "b"
    watch.close()


async def test_a_watch_list_marks_the_end_of_what_was_held(api: Api) -> None:
    await api.hold(put(config_map("a")))
    watch = await api.watch(
        f"{WATCH}&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    )
    added, mark = await event(watch), await event(watch)
    assert (added["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["object"]["metadata"]["resourceVersion"] == "1001"
    watch.close()


@pytest.mark.slow
async def test_the_end_is_marked_and_clean(api: Api) -> None:
    watch = await api.watch(f"{WATCH}&resourceVersion=1000&timeoutSeconds=1&allowWatchBookmarks=true")
    mark = await event(watch)
    assert (mark["type"], mark["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", "1000")
    assert await event(watch) == {}
    quiet = await api.watch(f"{WATCH}&resourceVersion=1000&timeoutSeconds=1")
    assert await event(quiet) == {}


async def test_bookmarks_pass_over_what_others_changed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch of a quiet kind still moves on, so that its client is not shown 410 later."""
    monkeypatch.setattr(watches, "BOOKMARK_SECONDS", 0.05)
    watch = await api.watch(f"{WATCH}&resourceVersion=1000&allowWatchBookmarks=true")
    await api.hold(put(config_map("x", namespace="elsewhere")))
    mark = await event(watch)
    while mark["object"]["metadata"]["resourceVersion"] != "1001":
        assert mark["type"] == "BOOKMARK"
        mark = await event(watch)
    watch.close()


async def test_a_watch_sends_only_its_selection(api: Api) -> None:
    labelled = await api.watch(f"{WATCH}&labelSelector=app%3Dx&resourceVersion=1000")
    named = await api.watch(f"{PATH}/b?watch=true&resourceVersion=1000")
    await api.hold(put(config_map("a", labels={"app": "y"})), put(config_map("b", labels={"app": "x"})))
    for watch in (labelled, named):
        assert (await event(watch))["object"]["metadata"]["name"] == "b"
        watch.close()


async def test_tables_are_watched_row_by_row(api: Api) -> None:
    await api.hold(put(config_map("a")))
    watch = await api.watch(WATCH, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    await api.hold(put(config_map("b")))
    first, second = await event(watch), await event(watch)
    assert first["object"]["kind"] == "Table" and first["object"]["columnDefinitions"]
    assert second["object"]["columnDefinitions"] is None and second["object"]["rows"][0]["cells"][0] == "b"
    watch.close()


async def test_a_watch_that_fell_behind_ends_with_410(api: Api) -> None:
    watch = await api.watch(f"{WATCH}&resourceVersion=1000")
    api.store.log.floor = 2000  # as if thousands of changes had passed by while the client was not reading
    await api.hold(put(config_map("a")))
    shown = await event(watch)
    assert (shown["type"], shown["object"]["code"], shown["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert await event(watch) == {}


async def test_too_many_watches_are_asked_to_come_back(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "WATCHES_MAX", 1)
    first = await api.watch(f"{WATCH}&resourceVersion=1000")
    status, body = await api.ask(f"{WATCH}&resourceVersion=1000")
    assert (status, body["details"]) == (429, {"retryAfterSeconds": watches.RETRY_AFTER_SECONDS})
    first.close()


async def test_when_the_agent_stops_every_watch_ends(api: Api) -> None:
    watch = await api.watch(f"{WATCH}&resourceVersion=1000")
    assert len(api.objects.watches) == 1
    api.objects.watches.end()
    async with asyncio.timeout(100):
        assert await event(watch) == {}
    assert len(api.objects.watches) == 0


async def test_a_watcher_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_SECONDS_MAX", 0.05)
    aborted: list[bool] = []

    class Stuck:
        query: ClassVar[dict[str, str]] = {}
        transport = SimpleNamespace(abort=lambda: aborted.append(True))

        async def write(self, _: bytes) -> None:
            await asyncio.Event().wait()

        def get(self, _: object) -> None:
            """It came by no port."""

        protocol = None

    stuck: Any = Stuck()
    with pytest.raises(ConnectionResetError):
        await connections.write(stuck, stuck, watches.event("ADDED", {}))
    assert aborted == [True]
