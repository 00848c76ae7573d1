"""What every ``StatusStore`` promises: the memory twin and SQLite obey the same suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.edges.held import config_map, put

from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.metastore import HeldObject, Remove
from fairlead_edge.objects.presentation import listing
from fairlead_edge.objects.statuses.patch import PatchRefused, StatusPatch
from fairlead_edge.objects.statuses.status_store import Key, StatusStore, StatusSummary
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.objects import digest

CONFIG_MAP = Kind(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)
A: Key = ("", "configmaps", "shop", "a")
RULES = msgspec.json.encode([message.StatusRule(rule="r", kind="ConfigMap", namespaces=["shop"], allowed=True)])
Store = MemoryMetastore | SqliteMetastore


class Place:
    """One store that is opened again and again, with ConfigMap shop/a in it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind, self._folder = kind, folder
        self.store: Store = self._new()

    def _new(self) -> Store:
        if self._kind == "memory":
            return MemoryMetastore(version=1000)
        return SqliteMetastore(self._folder, node="edge-1", bytes_max=1 << 24, wall_milliseconds=1000)

    @property
    def statuses(self) -> StatusStore:
        return self.store.statuses

    async def reopen(self) -> None:
        if isinstance(self.store, MemoryMetastore):
            self.store = self.store.reopened(2000)
        else:
            await self.store.close()
            self.store = self._new()

    async def begin(self) -> None:
        await self.store.apply([put(config_map("a")), put(config_map("b", namespace="other"))], now=1.0)
        await self.statuses.replace_rules(RULES, digest.content_digest(RULES))

    async def report(self, status: Any, *, key: Key = A, **more: Any) -> HeldObject:
        asked = StatusPatch(**{"operation": "Update", "manager": "me", "status": status, **more})
        return await self.statuses.patch(key, "v1", CONFIG_MAP, asked, 5.0)

    async def held(self) -> HeldObject:
        found = await self.store.get(*A)
        assert found is not None
        return found

    async def shown(self) -> Any:
        return listing.present(await self.held(), age_seconds=0).get("status")

    async def lines(self) -> list[tuple[str, str]]:
        return [(line.key[3], line.state) for line in await self.statuses.lines()]


@pytest.fixture(params=["memory", "sqlite"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    found = Place(request.param, tmp_path)
    await found.begin()
    yield found
    if isinstance(found.store, SqliteMetastore):
        await found.store.close()


async def refused(place: Place, status: Any, **more: Any) -> int:
    with pytest.raises(PatchRefused) as caught:
        await place.report(status, **more)
    return caught.value.status


async def test_a_program_reads_what_it_wrote(place: Place) -> None:
    """At once, in lists and watches, and after a restart; under a new version, and with the same digest."""
    before, root = await place.held(), (await place.store.summary()).buckets.root
    version = place.store.log.version
    answered = await place.report({"phase": "Ready"})
    assert answered == await place.held() and answered.local_version > before.local_version
    assert await place.shown() == {"phase": "Ready"}
    listed, at = await place.store.select("", "configmaps", "shop")
    assert listed == [answered] and at == answered.local_version
    [change] = place.store.log.since(version)
    assert (change.previous, change.current) == (before, answered)
    assert (await place.store.summary()).buckets.root == root
    await place.reopen()
    assert await place.shown() == {"phase": "Ready"} and await place.lines() == [("a", "waiting")]
    assert place.statuses.known.rules


async def test_a_newer_desired_state_leaves_the_status(place: Place) -> None:
    await place.report({"phase": "Ready"})
    await place.store.apply([put(config_map("a", labels={"new": "yes"}), version="101")], now=2.0)
    assert await place.shown() == {"phase": "Ready"} and await place.lines() == [("a", "waiting")]


async def test_a_status_goes_with_its_object(place: Place) -> None:
    """Also where it was made again under the same name, in one batch or over a restart."""
    await place.report({"phase": "Ready"})
    await place.store.apply([put(config_map("a", uid="second"))], now=2.0)
    assert await place.shown() is None and await place.lines() == []
    await place.report({"phase": "New"})
    await place.store.apply([Remove(resource=put(config_map("a")).resource, uid="second")], now=3.0)
    assert await place.lines() == []
    await place.reopen()
    await place.store.apply([put(config_map("a", uid="second"))], now=4.0)
    assert await place.shown() is None and await place.statuses.outgoing(A) is None


async def test_only_what_a_rule_allows_is_taken(place: Place) -> None:
    assert await refused(place, {"a": 1}, key=("", "configmaps", "other", "b")) == 403
    assert await refused(place, {"a": 1}, key=("", "configmaps", "shop", "none")) == 404
    assert await refused(place, {"a": 1}, uid="another") == 409
    await place.statuses.replace_rules(b"", "")
    assert await refused(place, {"a": 1}) == 403
    with pytest.raises(Malformed):
        await place.statuses.replace_rules(b"[]", "wrong")
    assert await place.shown() is None and await place.lines() == []


async def test_an_answer_settles_what_it_is_about(place: Place) -> None:
    heard: list[StatusSummary] = []
    place.statuses.listen(heard.append)
    await place.report({"a": 1})
    first = await place.statuses.outgoing(A)
    assert first is not None and (first.status, first.force) == (b'{"a":1}', "cluster")
    await place.report({"a": 2})
    await place.statuses.settle(A, first.uid, first.sequence)
    assert await place.lines() == [("a", "waiting")]
    second = await place.statuses.outgoing(A)
    assert second is not None and second.status == b'{"a":2}' and second.sequence > first.sequence
    await place.statuses.settle(A, "another", second.sequence)
    assert await place.lines() == [("a", "waiting")]
    await place.statuses.settle(A, second.uid, second.sequence, code="invalid", reason="a: text")
    assert await place.lines() == [("a", "refused")] and (await place.held()).report == "refused: invalid: a: text"
    assert await place.statuses.outgoing(A) is None
    assert [line.sequence for line in heard] == [first.sequence, second.sequence]
    await place.reopen()
    await place.report({"a": 3})
    third = await place.statuses.outgoing(A)
    assert third is not None and third.sequence > second.sequence


async def test_a_dry_run_and_what_changes_nothing_write_nothing(place: Place) -> None:
    version = place.store.log.version
    found = await place.report({"a": 1}, dry_run=True)
    assert listing.present(found, age_seconds=0)["status"] == {"a": 1} and await place.shown() is None
    await place.report({})
    await place.report(None)
    assert place.store.log.version == version and await place.lines() == []
    answered = await place.report({"a": 1})
    assert await place.report({"a": 1}) == answered


async def test_many_at_once_are_noted_in_their_order(place: Place) -> None:
    """Patches of many programs beside a batch of the hub's."""
    version = place.store.log.version
    hub = place.store.apply([put(config_map(f"c{number}")) for number in range(20)], now=2.0)
    await asyncio.gather(hub, *(place.report({f"k{number}": number}) for number in range(20)))
    versions = [change.version for change in place.store.log.since(version)]
    assert versions == list(range(version + 1, version + 41))
    assert len(await place.shown()) == 20
