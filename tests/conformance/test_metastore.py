"""What every ``Metastore`` promises: the memory twin and SQLite obey the same suite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_edge.link_state import StaleHub
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.metastore import (
    Absent,
    Metastore,
    Put,
    Remove,
    Removed,
    Stored,
    Unchanged,
    WriteRefused,
)
from fairlead_edge.objects.watch_history import HistoryExpired
from fairlead_wire.errors import LocalError
from fairlead_wire.objects import digest, resource

Opener = Callable[[], Awaitable[Metastore]]
BYTES_MAX = 512 * 1024


def is_usable(at: resource.Resource, content: bytes) -> bool:
    """Values that begin with "bad" are of no use."""
    return not msgspec.json.decode(content)["data"]["value"].startswith("bad")


def config_map_with(more: bytes) -> bytes:
    """ConfigMap shop/a with another field; of a field that comes twice the last one counts."""
    return b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"shop"},' + more + b"}"


class Places:
    """Opens and reopens one store, whichever twin it is."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._folder = folder
        self._open: MemoryMetastore | SqliteMetastore | None = None

    async def open(self, *, wall_milliseconds: int = 1000) -> Metastore:
        if self._kind == "memory":
            before = self._open
            assert before is None or isinstance(before, MemoryMetastore)
            self._open = (
                before.reopened(wall_milliseconds)
                if before
                else MemoryMetastore(version=1000, bytes_max=BYTES_MAX, usable=is_usable)
            )
        else:
            await self.close()
            self._open = SqliteMetastore(
                self._folder,
                node="edge-1",
                bytes_max=BYTES_MAX,
                wall_milliseconds=wall_milliseconds,
                usable=is_usable,
            )
        return self._open

    async def close(self) -> None:
        if isinstance(self._open, SqliteMetastore):
            await self._open.close()


@pytest.fixture(params=["memory", "sqlite"])
async def places(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Places]:
    found = Places(request.param, tmp_path)
    yield found
    await found.close()


@pytest.fixture
async def store(places: Places) -> Metastore:
    return await places.open()


def put(name: str, *, uid: str = "", data: str = "1", version: str = "1", api: str = "v1", **changes: Any) -> Put:
    uid = uid or f"uid-{name}"
    content = msgspec.json.encode(
        {
            "apiVersion": api,
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "shop", "uid": uid},
            "data": {"value": data},
        }
    )
    path = f"api/{api}/namespaces/shop/configmaps/{name}"
    made = Put(
        resource=resource.parse(path),
        uid=uid,
        digest=digest.content_digest(content),
        resource_version=version,
        content=content,
    )
    return msgspec.structs.replace(made, **changes)


def remove(name: str, *, uid: str = "") -> Remove:
    return Remove(resource=resource.parse(f"api/v1/namespaces/shop/configmaps/{name}"), uid=uid or f"uid-{name}")


async def names(store: Metastore) -> list[str]:
    held, _ = await store.select("", "configmaps")
    return [each.resource.name for each in held]


async def test_what_was_put_is_held(store: Metastore) -> None:
    """An object can be read back byte for byte, with both of its versions and when it was written."""
    [outcome] = await store.apply([put("a", version="17")], now=42.5)
    assert isinstance(outcome, Stored)
    held = await store.get("", "configmaps", "shop", "a")
    assert held is not None
    assert (held.content, held.resource_version, held.stored_at) == (put("a").content, "17", 42.5)
    assert held.local_version == outcome.change.version == store.log.version == 1001


async def test_content_that_does_not_match_its_digest_is_refused(store: Metastore) -> None:
    """A damaged object never replaces a sound one."""
    await store.apply([put("a")], now=0)
    [outcome] = await store.apply([put("a", data="2", digest="0" * 64)], now=0)
    assert isinstance(outcome, WriteRefused) and outcome.code == "digest_mismatch" and outcome.permanent
    held = await store.get("", "configmaps", "shop", "a")
    assert held is not None and held.content == put("a").content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[1]",
        b'{"kind":"ConfigMap","apiVersion":"v1"}',
        b'{"kind":"","apiVersion":"v1","metadata":{"name":"a","namespace":"shop"}}',
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","namespace":"shop"}}',
        b'{"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"a","namespace":"shop"}}',
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"shop","uid":"another"}}',
        b"[" * 100_000,
        config_map_with(b'"data":' + b"[" * 200_000 + b"]" * 200_000),
        config_map_with(b'"data":' + b"[" * 300 + b"]" * 300),
        config_map_with(b'"data":{"x":"\xff"}'),
        config_map_with(b'"data":{"x":1e999}'),
        config_map_with(b'"data":{"x":' + b"9" * 5000 + b"}"),
        config_map_with(b'"kind":"' + b"k" * 300 + b'"'),
        config_map_with(b'"metadata":{"name":"\xff","namespace":"shop"}'),
        config_map_with(b'"metadata":{"name":"a","namespace":"shop","annotations":[1]}'),
        config_map_with(b'"metadata":{"name":"a","namespace":"shop","labels":"x"}'),
        config_map_with(b'"metadata":{"name":"a","namespace":"shop","creationTimestamp":5}'),
        config_map_with(b'"metadata":{"name":"' + b"n" * 100_000 + b'","namespace":"shop"}'),
    ],
)
async def test_content_that_is_not_the_object_named_is_refused(store: Metastore, content: bytes) -> None:
    """What is served under a path is always the object of that path."""
    bad = put("a", content=content, digest=digest.content_digest(content))
    [outcome] = await store.apply([bad], now=0)
    assert isinstance(outcome, WriteRefused) and outcome.code == "malformed_content" and outcome.permanent
    assert len(outcome.reason) < 1000
    assert await names(store) == []


async def test_one_refused_write_does_not_undo_its_neighbours(store: Metastore) -> None:
    """A batch shares a flush, not a fate."""
    outcomes = await store.apply([put("a"), put("b", digest="0" * 64), put("c")], now=0)
    assert [type(outcome) for outcome in outcomes] == [Stored, WriteRefused, Stored]
    assert await names(store) == ["a", "c"]


async def test_the_same_again_changes_nothing(store: Metastore) -> None:
    """A message sent twice because its ack was lost is no change for watchers, only a newer version known."""
    await store.apply([put("a", version="1")], now=1)
    before = store.log.version
    [outcome] = await store.apply([put("a", version="2")], now=2)
    held = await store.get("", "configmaps", "shop", "a")
    assert outcome == Unchanged() and store.log.version == before
    assert held is not None and (held.resource_version, held.stored_at) == ("2", 1)


async def test_a_new_uid_replaces_the_old_under_the_same_name(store: Metastore) -> None:
    """Deleted and made again in the cluster: one step here, and watchers see both objects."""
    await store.apply([put("a", uid="old")], now=0)
    [outcome] = await store.apply([put("a", uid="new")], now=0)
    assert isinstance(outcome, Stored)
    assert outcome.change.previous is not None and outcome.change.current is not None
    assert (outcome.change.previous.uid, outcome.change.current.uid) == ("old", "new")
    assert await names(store) == ["a"]


async def test_an_object_under_another_version_of_its_group_replaces_it(store: Metastore) -> None:
    """One object served under two versions is one object."""
    await store.apply([put("a", uid="u"), put("a", uid="u", api="v2")], now=0)
    held, _ = await store.select("", "configmaps")
    assert [each.resource.version for each in held] == ["v2"]


async def test_a_delete_names_its_uid(store: Metastore) -> None:
    """A late delete of the old object leaves the new one of the same name alone."""
    await store.apply([put("a", uid="new")], now=0)
    assert await store.apply([remove("a", uid="old")], now=0) == [Absent()]
    assert await names(store) == ["a"]
    [outcome] = await store.apply([remove("a", uid="new")], now=0)
    assert isinstance(outcome, Removed) and await names(store) == []
    assert await store.apply([remove("a", uid="new")], now=0) == [Absent()]


async def test_a_full_store_refuses_for_now_and_keeps_what_it_has(store: Metastore) -> None:
    """Nothing is half stored; once something was deleted the same object fits."""
    big = "x" * (BYTES_MAX // 4)
    outcomes = await store.apply([put(f"big-{number}", data=big) for number in range(8)], now=0)
    stored = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Stored)]
    full = [outcome for outcome in outcomes if isinstance(outcome, WriteRefused)]
    assert 0 < len(stored) < 8
    assert {outcome.code for outcome in full} == {"store_full"}
    assert all(not outcome.permanent and outcome.retry_after_seconds for outcome in full)
    assert await names(store) == [f"big-{number}" for number in stored]
    await store.apply([remove(f"big-{stored[0]}")], now=0)
    [outcome] = await store.apply([put("late", data=big)], now=0)
    assert isinstance(outcome, Stored)


async def test_the_summary_is_of_all_entries(store: Metastore) -> None:
    """Two stores that hold the same have the same root, however they came to it."""
    await store.apply([put(f"n-{number}") for number in range(40)], now=0)
    await store.apply([remove("n-7"), put("n-8", data="2")], now=0)
    held, _ = await store.select("", "configmaps")
    expected = digest.Buckets.of([(each.uid, each.digest) for each in held], 3)
    found = await store.summary(3)
    assert (found.held, found.buckets.root) == (39, expected.root)
    assert (await store.summary()).buckets.bits == digest.bits_for(39)


async def test_entries_are_those_of_the_buckets_asked_for(store: Metastore) -> None:
    """The hub asks for the names in the buckets that differ, and gets no others."""
    await store.apply([put(f"n-{number}", version=str(number)) for number in range(40)], now=0)
    every = await store.entries(2, frozenset(range(4)))
    some = await store.entries(2, frozenset({1, 3}))
    assert len(every) == 40 and 0 < len(some) < 40
    assert some == [entry for entry in every if digest.bucket_of(entry.uid, 2) in {1, 3}]
    assert every[0].resource == "api/v1/namespaces/shop/configmaps/n-0" and every[0].resource_version == "0"


async def test_selecting_is_ordered_and_by_namespace(store: Metastore) -> None:
    """Pages need one order; a namespace of a similar name is another namespace."""
    await store.apply([put("b"), put("a")], now=0)
    held, version = await store.select("", "configmaps", "shop")
    assert [each.resource.name for each in held] == ["a", "b"] and version == store.log.version
    assert await store.select("", "configmaps", "sho") == ([], version)
    assert await store.select("", "secrets") == ([], version)


async def test_a_type_is_read_in_chunks(store: Metastore) -> None:
    """In the same order, each at least one object; and what follows is counted by version and namespace."""
    await store.apply([put(name) for name in "badc"], now=0)
    size = len((await store.select("", "configmaps"))[0][0].content)
    first = await store.select_chunk("", "configmaps", bytes_max=size + 1)
    assert ([each.resource.name for each in first.objects], first.more) == (["a", "b"], True)
    one = await store.select_chunk("", "configmaps", "shop", after=("shop", "b"), bytes_max=1)
    assert ([each.resource.name for each in one.objects], one.more) == (["c"], True)
    rest = await store.select_chunk("", "configmaps", after=("shop", "b"), bytes_max=3 * size)
    assert ([each.resource.name for each in rest.objects], rest.more) == (["c", "d"], False)
    assert rest.version == first.version == store.log.version
    assert (await store.select_chunk("", "configmaps", after=("shop", "d"))).objects == []
    assert await store.count("", "v1", "configmaps", after=("shop", "a")) == 3
    assert await store.count("", "v1", "configmaps", "shop", after=("shop", "c")) == 1
    assert await store.count("", "v1", "configmaps", "sho") == 0
    assert await store.count("", "v2", "configmaps") == 0


async def test_kinds_are_known_after_their_last_object_went(store: Metastore) -> None:
    """A client that lists a kind that is gone gets an empty list, not an error."""
    await store.apply([put("a")], now=0)
    await store.apply([remove("a")], now=0)
    [kind] = await store.kinds()
    assert (kind.plural, kind.kind, kind.namespaced, kind.api_version) == ("configmaps", "ConfigMap", True, "v1")


async def test_the_fence_rises_only(store: Metastore) -> None:
    """A hub that lost its lease is never obeyed again."""
    assert await store.fence() == 0
    await store.persist_fence(7)
    await store.persist_fence(7)
    with pytest.raises(LocalError):
        await store.persist_fence(6)
    assert await store.fence() == 7


async def test_a_fence_that_is_given_up_is_lowered(store: Metastore) -> None:
    """No hub has shown the higher one for long; a higher one is never remembered by it."""
    await store.persist_fence(1_000_000)
    await store.lower_fence(16)
    assert await store.fence() == 16
    await store.lower_fence(99)
    assert await store.fence() == 16
    await store.persist_fence(17)
    assert await store.fence() == 17


async def test_since_when_hubs_are_refused_survives_a_restart(places: Places) -> None:
    """Until a number is obeyed or given up: then nothing is left of it."""
    store = await places.open(wall_milliseconds=1000)
    assert await store.stale_hub() is None
    refused = StaleHub(since=12.5, highest=16)
    for end in ("persist_fence", "lower_fence"):
        await store.persist_stale_hub(refused)
        store = await places.open(wall_milliseconds=2000)
        assert await store.stale_hub() == refused
        await getattr(store, end)(17)
        assert await store.stale_hub() is None


async def test_everything_survives_a_restart_but_the_change_log(places: Places) -> None:
    """After a restart the same is held; a watcher of the past has to list again."""
    store = await places.open(wall_milliseconds=1000)
    await store.apply([put("a"), put("b")], now=3)
    await store.persist_fence(9)
    await store.touch(12.5)
    before = await store.summary()
    version = store.log.version
    again = await places.open(wall_milliseconds=5000)
    after = await again.summary()
    assert (after.held, after.buckets.root) == (before.held, before.buckets.root)
    assert (await again.fence(), await again.contact_at()) == (9, 12.5)
    assert len(await again.kinds()) == 1
    assert again.log.version == 5000
    with pytest.raises(HistoryExpired):
        again.log.since(version)


async def test_versions_never_fall_even_if_the_clock_does(places: Places) -> None:
    """A clock that starts in 1970 must not make new versions look old."""
    store = await places.open(wall_milliseconds=5000)
    await store.apply([put("a"), put("b"), remove("b")], now=0)
    version = store.log.version
    again = await places.open(wall_milliseconds=7)
    assert again.log.version > version
    [outcome] = await again.apply([put("c")], now=0)
    assert isinstance(outcome, Stored) and outcome.change.version > version + 1


async def test_never_heard_of_the_hub(store: Metastore) -> None:
    """A new node has no last contact."""
    assert await store.contact_at() is None


async def fallbacks(store: Metastore) -> list[tuple[str, str]]:
    """Names and versions."""
    return [(held.resource.name, held.resource_version) for held in await store.fallbacks("", "configmaps")]


async def test_of_an_unusable_version_the_last_usable_one_is_kept_beside_it(places: Places) -> None:
    """The unusable one is held, for the cluster wants it; the other survives any number of them, and a restart."""
    store = await places.open()
    await store.apply([put("a", data="1", version="1"), put("b")], now=0)
    await store.apply([put("a", data="2", version="2")], now=0)
    assert await fallbacks(store) == []
    await store.apply([put("a", data="bad 1", version="3"), put("a", data="bad 2", version="4")], now=0)
    held = await store.get("", "configmaps", "shop", "a")
    assert held is not None and held.resource_version == "4"
    assert (await store.summary()).held == 2
    again = await places.open(wall_milliseconds=5000)
    assert await fallbacks(again) == [("a", "2")]
    [kept] = await again.fallbacks("", "configmaps")
    assert b'"2"' in kept.content and kept.uid == "uid-a"


async def test_a_fallback_goes_with_its_need(store: Metastore) -> None:
    """When a usable version comes, the object goes, or another object takes its name."""
    for end in (put("a", data="2", version="3"), remove("a"), put("a", uid="other", data="bad", version="1")):
        await store.apply([remove("a"), remove("a", uid="other")], now=0)
        await store.apply([put("a", data="1"), put("a", data="bad", version="2")], now=0)
        assert await fallbacks(store) == [("a", "1")]
        await store.apply([end], now=0)
        assert await fallbacks(store) == []


async def test_what_was_never_usable_has_no_fallback(store: Metastore) -> None:
    """There is nothing to fall back to."""
    await store.apply([put("a", data="bad 1"), put("a", data="bad 2", version="2")], now=0)
    assert await fallbacks(store) == []
