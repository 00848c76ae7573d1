"""Collections of the API: reads them page by page, and watches them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

PAGE = 500
WATCH_SECONDS = 290
"""How long the server keeps a watch open; then it is opened again from the same version."""
SILENCE_SECONDS = 330.0
PAUSE_SECONDS = 1.0
"""Delay before an ended watch is opened again; also how long ``changes`` waits before it yields an empty list."""
WAITING_MAX = 1000
GONE = 410

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Collection:
    """A path of the API, and selectors."""

    path: str
    query: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CollectionChange:
    """The new state of an object, or its last state if ``deleted``; ``collection`` is the index of its collection."""

    collection: int
    item: Item
    deleted: bool = False


async def items(kube: Kube, path: str, **query: str) -> list[Item]:
    """All objects of a collection. Raises ``ApiRefused`` or ``ApiUnavailable``."""
    return (await _listed(kube, Collection(path, query)))[0]


async def changes(kube: Kube, *collections: Collection) -> AsyncIterator[list[CollectionChange]]:
    """All objects in one list, then lists of changes, in order.

    An empty list means that nothing changed for a while. Outages of the server are waited out; an object that changed
    during one is yielded once, in its new state.
    """
    listed = [await _listed(kube, each) for each in collections]
    yield [CollectionChange(at, item) for at, (found, _) in enumerate(listed) for item in found]
    queue: asyncio.Queue[CollectionChange | Exception] = asyncio.Queue(WAITING_MAX)
    tasks = [asyncio.create_task(_follow(kube, at, each, *listed[at], queue)) for at, each in enumerate(collections)]
    try:
        while True:
            try:
                batch = [await asyncio.wait_for(queue.get(), PAUSE_SECONDS)]
            except TimeoutError:
                batch = []
            while not queue.empty():
                batch.append(queue.get_nowait())
            for each in batch:
                if isinstance(each, Exception):
                    raise each
            yield [each for each in batch if isinstance(each, CollectionChange)]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _listed(kube: Kube, collection: Collection) -> tuple[list[Item], str]:
    """The objects, and the version to watch from."""
    found: list[Item] = []
    query = {**(collection.query or {}), "limit": str(PAGE)}
    while True:
        page = _object(await kube.get(collection.path, **query), collection.path)
        metadata = page.get("metadata") or {}
        kind = str(page.get("kind", "")).removesuffix("List")
        # Items of a list have no apiVersion and kind; kubectl adds them too.
        what = {"apiVersion": page.get("apiVersion", ""), "kind": kind}
        found += [{**what, **_tidy(each)} for each in page.get("items") or ()]
        if not metadata.get("continue"):
            return found, str(metadata.get("resourceVersion", ""))
        query["continue"] = metadata["continue"]


async def _follow(
    kube: Kube,
    at: int,
    collection: Collection,
    found: Sequence[Item],
    version: str,
    queue: asyncio.Queue[CollectionChange | Exception],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable

    known = {_uid(item): item for item in found}
    while True:
        try:
            if not version:
                again, version = await _listed(kube, collection)
                for change in _missed(at, known, again):
                    await queue.put(change)
                known = {_uid(item): item for item in again}
            async for type, item in _watched(kube, collection, version):
                version = _version(item)
                if type == "BOOKMARK":
                    continue
                if type == "DELETED":
                    known.pop(_uid(item), None)
                else:
                    known[_uid(item)] = item
                await queue.put(CollectionChange(at, item, type == "DELETED"))
        except _Expired:
            version = ""
        except ApiUnavailable:
            pass
        except ApiRefused as error:
            if error.status != GONE:
                await queue.put(error)
                return
            version = ""
        # Also if the server ended the watch: if it does so at once, this must not become a busy loop.
        await pause(PAUSE_SECONDS)


def _missed(at: int, before: Mapping[str, Item], now: Sequence[Item]) -> list[CollectionChange]:
    """The changes that an expired watch missed."""
    there = {_uid(item) for item in now}
    changed = [CollectionChange(at, item) for item in now if _version(before.get(_uid(item), {})) != _version(item)]
    return changed + [CollectionChange(at, item, deleted=True) for uid, item in before.items() if uid not in there]


async def _watched(kube: Kube, collection: Collection, version: str) -> AsyncIterator[tuple[str, Item]]:
    query = {
        **(collection.query or {}),
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(WATCH_SECONDS),
    }
    async for line in kube.lines(collection.path, query, SILENCE_SECONDS):
        event = _object(line, collection.path)
        type, item = str(event.get("type")), event.get("object") or {}
        if type == "ERROR":
            raise _Expired
        yield type, _tidy(item)


class _Expired(Exception):
    """The version is too old to watch from: everything is listed again."""


def _object(content: bytes, path: str) -> Item:
    from fairlead_hub.io.cluster.api_error import UnreadableAnswer

    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnreadableAnswer(f"the answer for {path} cannot be read: it is not a JSON object")
    return found


def _tidy(item: Item) -> Item:
    """Drop managedFields, which are longer than everything else; kubectl does not show them either."""
    (item.get("metadata") or {}).pop("managedFields", None)
    return item


def _uid(item: Item) -> str:
    return str(item.get("metadata", {}).get("uid", ""))


def _version(item: Item) -> str:
    return str(item.get("metadata", {}).get("resourceVersion", ""))
