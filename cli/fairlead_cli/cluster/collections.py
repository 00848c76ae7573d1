"""Collections of the API: read page by page, and followed as they change."""

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
"""After which the server ends a watch, and it is opened again where it stood."""
SILENCE_SECONDS = 330.0
PAUSE_SECONDS = 1.0
"""Before a watch that ended is opened again; also how often ``changes`` gives an empty list when nothing comes."""
WAITING_MAX = 1000
GONE = 410

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Collection:
    """A path of the API and what its list is narrowed by."""

    path: str
    query: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CollectionChange:
    """One object as it is now, or, ``deleted``, as it was last; ``collection`` is its place in the question."""

    collection: int
    item: Item
    deleted: bool = False


async def items(kube: Kube, path: str, **query: str) -> list[Item]:
    """All objects of a collection. Raises ``ApiRefused`` or ``ApiUnavailable``."""
    return (await _listed(kube, Collection(path, query)))[0]


async def changes(kube: Kube, *collections: Collection) -> AsyncIterator[list[CollectionChange]]:
    """Everything there is, in one list; then what changes, in the order in which it comes.

    An empty list means that nothing came for a while. A server that is away for a moment is waited for; an object
    that changed meanwhile comes once, as it is then.
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
    """The objects and the version at which to go on."""
    found: list[Item] = []
    query = {**(collection.query or {}), "limit": str(PAGE)}
    while True:
        page = _object(await kube.get(collection.path, **query), collection.path)
        metadata = page.get("metadata") or {}
        kind = str(page.get("kind", "")).removesuffix("List")
        # The items of a list do not say what they are; alone they should, as kubectl shows them.
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
        # Also where the server ended it: one that does so at once must not be asked without a pause.
        await pause(PAUSE_SECONDS)


def _missed(at: int, before: Mapping[str, Item], now: Sequence[Item]) -> list[CollectionChange]:
    """What a watch that ended too early did not say."""
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
    """The version to go on from is too old: everything is listed again."""


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
    """Without who wrote which field: longer than all the rest, and kubectl does not show it either."""
    (item.get("metadata") or {}).pop("managedFields", None)
    return item


def _uid(item: Item) -> str:
    return str(item.get("metadata", {}).get("uid", ""))


def _version(item: Item) -> str:
    return str(item.get("metadata", {}).get("resourceVersion", ""))
