"""List and watch one collection for ever, and say when what it told is complete.

    list in chunks ─▶ on_object … on_listed ─▶ watch ─▶ on_object | on_gone … (bookmarks move the version on)
         ▲                                       │ 410, too old, bad answer
         └────────────────────────────────────────┘
    403, 404, 405: on_unlistable (frozen), tried again at a slower pace

A watch that ended because its time was over is taken up where it was.  One that broke is not: behind a break the API
server may have been restored from an older copy, and a watch from a version it has not reached yet would stay silent.
Until the new list is whole the cache counts as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from fairlead_hub import api_json
from fairlead_hub.io.kube import Kube, Refused, Unavailable
from fairlead_wire.errors import Malformed
from fairlead_wire.io import logs

CHUNK = 500
WATCH_SECONDS = 300
"""The server is asked to end a watch after this; a silence a little longer means that it is dead."""
SILENCE_SECONDS = WATCH_SECONDS + 30
RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 15.0
UNLISTABLE_RETRY_SECONDS = 5.0
UNLISTABLE = frozenset({403, 404, 405})
_log = logs.get("hub.reflector")


class Sink(Protocol):
    """Who hears of it.  Calls come from one task, in order; they must not block."""

    def on_object(self, raw: msgspec.Raw) -> str:
        """Added or changed.  Returns an identity for ``on_listed``."""

    def on_gone(self, raw: msgspec.Raw) -> None: ...

    def on_listed(self, identities: set[str]) -> None:
        """The list is complete: what is not named is gone."""

    def on_lost(self) -> None:
        """The version was lost; until the next ``on_listed`` nothing is certain."""

    def on_unlistable(self, reason: str) -> None: ...


class _Problem(msgspec.Struct):
    code: int = 0
    message: str = ""


_problem = msgspec.json.Decoder(_Problem)


class _Gone(Exception):
    """The version we know is too old to watch from."""


class _Broken(Exception):
    """The watch ended before its time."""


class Reflector:
    """``run`` never returns by itself; cancel it."""

    def __init__(
        self,
        kube: Kube,
        root: str,
        sink: Sink,
        *,
        params: dict[str, str] | None = None,
        retry_seconds: float = RETRY_SECONDS,
        restarted: Callable[[str], Any] = lambda reason: None,
        unreadable: Callable[[], None] = lambda: None,
    ) -> None:
        self.root = root
        self._kube = kube
        self._sink = sink
        self._params = params or {}
        self._retry_seconds = retry_seconds
        self._clock = asyncio.get_running_loop().time
        self._restarted = restarted
        self._unreadable = unreadable
        self._version = ""

    async def run(self) -> None:
        wait = self._retry_seconds
        while True:
            try:
                if not self._version:
                    await self._list()
                    wait = self._retry_seconds
                await self._watch()
                wait = self._retry_seconds
            except _Broken as error:
                self._restarted("broken")
                _log.info("watch_broken", collection=self.root, reason=str(error))
                self._version = ""
            except _Gone:
                self._restarted("version_lost")
                self._lose()
            except Refused as error:
                if error.status in UNLISTABLE:
                    _log.warning("kind_unlistable", collection=self.root, reason=str(error))
                    self._version = ""
                    self._sink.on_unlistable(str(error))
                    await asyncio.sleep(UNLISTABLE_RETRY_SECONDS)
                else:
                    self._restarted("refused")
                    _log.warning("watch_refused", collection=self.root, reason=str(error))
                    self._lose()
                    await asyncio.sleep(wait)
            except Unavailable as error:
                self._restarted("unavailable")
                self._version = ""
                _log.warning("watch_unavailable", collection=self.root, reason=str(error), retry_seconds=wait)
                await asyncio.sleep(wait if error.retry_after_seconds is None else error.retry_after_seconds)
                wait = min(wait * 2, RETRY_SECONDS_MAX)
            except Malformed as error:
                self._restarted("malformed")
                listing, self._version = not self._version, ""
                _log.warning("watch_malformed", collection=self.root, reason=str(error), retry_seconds=wait)
                if listing:
                    self._sink.on_unlistable(str(error))
                await asyncio.sleep(wait)
                wait = min(wait * 2, RETRY_SECONDS_MAX)

    def _lose(self) -> None:
        self._version = ""
        self._sink.on_lost()

    async def _list(self) -> None:
        """A list whose chunks outlive their version (410) starts over; nothing counts until it is whole."""
        identities: set[str] = set()
        params = {**self._params, "limit": str(CHUNK)}
        while True:
            try:
                page = api_json.page(await self._kube.get(self.root, **params))
            except Refused as error:
                if error.status == 410:
                    raise _Gone from None
                raise
            for raw in page.items:
                identities.add(self._tell(raw))
            # A breath between chunks: fifty thousand objects must not hold up the nodes' acks.
            await asyncio.sleep(0)
            if not page.next:
                break
            params["continue"] = page.next
        self._version = page.version
        self._sink.on_listed(identities)

    async def _watch(self) -> None:
        params = {
            **self._params,
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        started = self._clock()
        try:
            async for line in self._kube.lines(self.root, params, SILENCE_SECONDS):
                event = api_json.event(line)
                match event.type:
                    case "ADDED" | "MODIFIED" | "DELETED":
                        self._tell(event.object, gone=event.type == "DELETED")
                    case "BOOKMARK":
                        pass
                    case _:
                        self._trouble(event.object)
                self._version = api_json.version(event.object) or self._version
        except Refused as error:
            if error.status == 410:
                raise _Gone from None
            raise
        if self._clock() - started < WATCH_SECONDS - 1:
            raise _Broken("the API server ended it early")

    def _tell(self, raw: msgspec.Raw, *, gone: bool = False) -> str:
        """An object that cannot even be named is counted and left out: the others are told all the same."""
        try:
            if not gone:
                return self._sink.on_object(raw)
            self._sink.on_gone(raw)
        except Malformed as error:
            self._unreadable()
            _log.warning("object_unreadable", collection=self.root, name="", reason=str(error))
        return ""

    def _trouble(self, raw: msgspec.Raw) -> None:
        problem = api_json.decode(_problem, raw)
        if problem.code == 410:
            raise _Gone
        raise Unavailable(f"watch of {self.root}: {problem.code} {problem.message}")
