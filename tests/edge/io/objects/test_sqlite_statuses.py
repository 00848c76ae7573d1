"""Statuses on disk, where a client hangs up, or the disk is full; the rest is in the conformance suite."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.support.edges.held import config_map, put

from fairlead_edge.errors import StoreFull
from fairlead_edge.io.objects import schema as sql
from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.statuses.patch import PatchRefused, StatusPatch
from fairlead_wire import message
from fairlead_wire.objects import digest

KIND = Kind(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)
KEY = ("", "configmaps", "shop", "a")
ASKED = StatusPatch(operation="Update", manager="me", status={"a": 1})


async def opened(folder: Path) -> SqliteMetastore:
    store = SqliteMetastore(folder, node="edge-1", bytes_max=1 << 24, wall_milliseconds=1000)
    rules = msgspec.json.encode([message.StatusRule(rule="r", kind="ConfigMap", allowed=True)])
    await store.statuses.replace_rules(rules, digest.content_digest(rules))
    await store.apply([put(config_map("a"))], now=1.0)
    return store


async def test_who_hangs_up_keeps_no_change_from_watches(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    version = store.log.version
    asking = asyncio.create_task(store.statuses.patch(KEY, "v1", KIND, ASKED, 1.0))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await store.apply([put(config_map("b"))], now=2.0)  # after it, in the order of all changes
    assert [change.version for change in store.log.since(version)] == [version + 1, version + 2]
    await store.close()


async def test_a_full_disk_is_507(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await opened(tmp_path)

    async def full(job: object) -> None:
        raise StoreFull("no room")

    with monkeypatch.context() as patched:
        patched.setattr(store.writer, "submit", full)
        with pytest.raises(PatchRefused) as caught:
            await store.statuses.patch(KEY, "v1", KIND, ASKED, 1.0)
    assert caught.value.status == 507
    assert (await store.statuses.patch(KEY, "v1", KIND, ASKED, 1.0)).report == "waiting"
    await store.close()


async def test_what_an_agent_before_statuses_removed_leaves_none(tmp_path: Path) -> None:
    """It would take room, and be counted as refused, for ever."""
    store = await opened(tmp_path)
    await store.apply([put(config_map("b"))], now=1.0)
    for name in "ab":
        await store.statuses.patch(("", "configmaps", "shop", name), "v1", KIND, ASKED, 1.0)
    await store.writer.submit(lambda connection: rows(connection, sql.DELETE_OBJECT, KEY))
    await store.close()
    store = SqliteMetastore(tmp_path, node="edge-1", bytes_max=1 << 24, wall_milliseconds=1000)
    assert [line.key[-1] for line in await store.statuses.lines()] == ["b"]
    await store.close()
