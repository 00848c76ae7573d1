"""Lists one collection once, watches it forever, and reports when the listed state is complete.

    list in chunks ─▶ on_object … on_listed ─▶ watch ─▶ on_object | on_gone … (bookmarks move the version on)
         ▲                                       │ ended, broken, silent: again from the last version
         └──────── 410, restored, rejected ──────┘
    403, 404, 405: on_unlistable (frozen), tried again at a slower pace

A watch that ends, for any reason, is reopened at its last version; ``watch_health`` says when.  A new list is made only
if the version is useless: the server says so (410), answers it with errors or invalid data repeatedly, was away for
long, or is behind it.  In that case it was restored from an older copy, and a watch from a version it has not reached
yet would stay silent.  This is checked whenever the server was away; if it cannot be known, because the server was away
or refused the list for so long that it may have passed our version, it counts as restored.  Until a new list is
complete the cache stays as it was.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

import msgspec

from fairlead_hub.cluster import api_json
from fairlead_hub.cluster.watch_health import RETRY_SECONDS, WatchBackoff, WatchHealth
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.cluster.kube import ATTEMPTS, Kube
from fairlead_wire.errors import Malformed
from fairlead_wire.io import logs
from fairlead_wire.objects.resource import is_newer

CHUNK = 500
WATCH_SECONDS = 300
"""The server is asked to end a watch after this time."""
OPENING_SECONDS = 10.0
"""A watch that is not answered within this time is requested again."""
MISSED_SECONDS = 0.5
"""A change that arrives this soon after a silent watch was reopened had been missed by the old one."""
UNLISTABLE_RETRY_SECONDS = 5.0
NOT_SERVED = 404
UNLISTABLE = frozenset({403, NOT_SERVED, 405})
_log = logs.get("hub.reflector")


class ReflectorListener(Protocol):
    """Receives the changes.  Calls come from one task, in order; they must not block."""

    def on_object(self, raw: msgspec.Raw) -> str:
        """Added or changed.  Returns an identity for ``on_listed``."""

    def on_gone(self, raw: msgspec.Raw) -> None: ...

    def on_listed(self, identities: set[str], version: str) -> None:
        """The list is complete: objects it does not name were gone at this version of the collection."""

    def on_lost(self, restored: bool) -> None:
        """The version was lost; until the next ``on_listed`` nothing is certain.

        ``restored``: the server is, or may be, restored from an older copy: versions start over below those we know.
        """

    def on_unlistable(self, reason: str, *, served: bool) -> None: ...


class _Problem(msgspec.Struct):
    code: int = 0
    message: str = ""


_problem = msgspec.json.Decoder(_Problem)


class _Lost(Exception):
    """The version we know is useless; the text is the name under which this is counted."""


class _Rejected(Exception):
    """An error instead of changes."""


class Reflector:
    """``run`` never returns by itself; cancel it."""

    def __init__(
        self,
        kube: Kube,
        root: str,
        sink: ReflectorListener,
        *,
        params: dict[str, str] | None = None,
        retry_seconds: float = RETRY_SECONDS,
        restarted: Callable[[str], Any] = lambda reason: None,
        unreadable: Callable[[], None] = lambda: None,
        freshness: WatchHealth | None = None,
        missed: Callable[[], Any] = lambda: None,
    ) -> None:
        """``missed`` is called when a connection turned out to be dead: others may be dead, too."""
        self.root = root
        self._kube = kube
        self._sink = sink
        self._params = params or {}
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._restarted = restarted
        self._unreadable = unreadable
        self._freshness = freshness if freshness is not None else WatchHealth()
        self._missed = missed
        self._version = self._given_up = ""
        self._may_be_restored = False
        """After ``_given_up``: the last version we had."""
        self._pace = WatchBackoff(retry_seconds=retry_seconds)
        self._random = Random(root)
        self._scope = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._opened = self._was_silent = False
        self._heard_at = 0.0

    async def run(self) -> None:
        try:
            while True:
                if wait := await self._turn():
                    await asyncio.sleep(wait)
        finally:
            self._freshness.fresh(self.root)

    def suspect(self) -> None:
        """Connections break: if this watch is silent, reopen it soon."""
        self._pace.suspect()
        if self._timer is not None:
            self._check_silence()

    async def _turn(self) -> float:
        """One list, if there is no version, and one watch; returns the pause until the next turn."""
        self._opened = False
        try:
            if self._version and self._pace.was_away:
                await self._verify()
            if not self._version:
                await self._list()
            return await self._watch()
        except _Lost as error:
            self._restarted(str(error))
            _log.info("watch_lost", collection=self.root, reason=str(error))
            self._lose(restored=str(error) == "restored")
            wait, _ = self._pace.rejected()
            return wait if self._pace.rejections > 1 else 0.0
        except ApiRefused as error:
            if error.status in UNLISTABLE:
                if self._freshness.stale(self.root, str(error), self._clock()):
                    _log.warning("kind_unlistable", collection=self.root, reason=str(error))
                self._give_up(may_be_restored=True)
                self._sink.on_unlistable(str(error), served=error.status != NOT_SERVED)
                return UNLISTABLE_RETRY_SECONDS
            return self._reject("refused", str(error), lose=True)
        except ApiUnavailable as error:
            if self._opened:
                return self._break(str(error))
            return self._fail(str(error), error.retry_after_seconds)
        except _Rejected as error:
            return self._reject("error", str(error))
        except Malformed as error:
            if not self._version:
                self._sink.on_unlistable(str(error), served=True)
            return self._reject("malformed", str(error))

    # ---- what went wrong -------------------------------------------------------------------------

    def _break(self, reason: str) -> float:
        self._restarted("broken")
        _log.info("watch_broken", collection=self.root, reason=reason)
        self._missed()
        return self._pace.ended(self._clock(), progressed=self._progressed)

    def _fail(self, reason: str, retry_after: float | None) -> float:
        self._restarted("unavailable")
        now = self._clock()
        wait = self._pace.failed(now, retry_after=retry_after, uniform=self._random.random())
        self._stale(reason, now)
        if self._pace.was_away_long(now):
            self._give_up(may_be_restored=True)
        return wait

    def _reject(self, name: str, reason: str, *, lose: bool = False) -> float:
        self._restarted(name)
        wait, relist = self._pace.rejected()
        if self._stale(reason, self._clock()):
            _log.warning(f"watch_{name}", collection=self.root, reason=reason)
        if lose or relist:
            self._lose(restored=False)
        return wait

    def _stale(self, reason: str, now: float) -> bool:
        """Logged once, however many attempts follow."""
        first = self._freshness.stale(self.root, reason, now)
        if first:
            _log.warning("watch_stale", collection=self.root, reason=reason)
        return first

    def _fresh(self) -> None:
        since = self._freshness.fresh(self.root)
        if since is not None:
            _log.info("watch_fresh", collection=self.root, stale_seconds=round(self._clock() - since, 1))

    def _lose(self, *, restored: bool) -> None:
        self._give_up(may_be_restored=False)
        if restored:
            self._given_up = ""
        self._sink.on_lost(restored)

    def _give_up(self, *, may_be_restored: bool) -> None:
        """The next list decides; ``_compare_with`` compares its version with ours."""
        if self._version:
            self._given_up, self._version = self._version, ""
            self._may_be_restored = may_be_restored

    def _compare_with(self, version: str) -> None:
        """A new list begins at this version."""
        if self._given_up and (self._may_be_restored or is_newer(self._given_up, version)):
            self._sink.on_lost(True)
        self._given_up, self._may_be_restored = "", False

    # ---- list ------------------------------------------------------------------------------------

    async def _verify(self) -> None:
        """Check whether the server that came back is behind what we have seen.  Raises ``_Lost``."""
        content = await self._kube.request("GET", self.root, params={**self._params, "limit": "1"}, attempts=1)
        if is_newer(self._version, api_json.page(content).version):
            raise _Lost("restored")

    async def _list(self) -> None:
        """List the collection.

        If chunks outlive their version (410), the list starts over; nothing counts until it is complete.
        """
        identities: set[str] = set()
        version = ""
        params = {**self._params, "limit": str(CHUNK)}
        while True:
            try:
                attempts = ATTEMPTS if version else 1
                page = api_json.page(await self._kube.request("GET", self.root, params=params, attempts=attempts))
            except ApiRefused as error:
                if error.status == 410:
                    raise _Lost("version_lost") from None
                raise
            if not version:
                self._compare_with(page.version)
            version = page.version
            for raw in page.items:
                identities.add(self._report(raw))
            # Pause between chunks: fifty thousand objects must not delay the nodes' acks.
            await asyncio.sleep(0)
            if not page.next:
                break
            params["continue"] = page.next
        self._version = version
        self._pace.listed()
        self._sink.on_listed(identities, version)

    # ---- watch -----------------------------------------------------------------------------------

    async def _watch(self) -> float:
        params = {
            **self._params,
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        self._heard_at = started = self._clock()
        self._progressed = False
        self._timer = self._loop.call_later(OPENING_SECONDS, self._check_silence)
        lines = self._kube.lines(self.root, params, 2 * WATCH_SECONDS, opened=self._on_opened)
        try:
            async with asyncio.timeout(None) as self._scope, contextlib.aclosing(lines):
                async for line in lines:
                    self._take(line)
        except TimeoutError:
            if not self._opened:
                raise ApiUnavailable(f"watch of {self.root}: no answer within {OPENING_SECONDS:g} s") from None
            self._restarted("silent")
            self._was_silent = True
            self._pace.went_silent()
            return 0.0
        except ApiRefused as error:
            if error.status == 410:
                raise _Lost("version_lost") from None
            raise
        finally:
            self._timer.cancel()
            self._timer = None
        now = self._clock()
        if now - started < WATCH_SECONDS - 1:
            self._restarted("ended")
            _log.info("watch_ended", collection=self.root, reason="the API server ended it early")
        return self._pace.ended(now, progressed=self._progressed)

    def _on_opened(self) -> None:
        self._opened = True
        self._heard_at = now = self._clock()
        self._pace.opened(now)
        if not self._pace.rejections:
            self._fresh()
        self._check_silence()

    def _take(self, line: bytes) -> None:
        event = api_json.event(line)
        if event.type not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            problem = api_json.decode(_problem, event.object)
            if problem.code == 410:
                raise _Lost("version_lost")
            raise _Rejected(f"{event.type} {problem.code}: {problem.message}")
        news = event.type != "BOOKMARK"
        if news:
            self._report(event.object, gone=event.type == "DELETED")
        now = self._clock()
        if self._was_silent:
            self._was_silent = False
            if news and now - self._heard_at < MISSED_SECONDS:
                self._missed()
        self._heard_at = now
        version = api_json.version(event.object)
        if not version:
            return
        if self._pace.rejections:
            self._fresh()
        self._version = version
        if news:
            self._progressed = True
            self._pace.progressed()

    def _report(self, raw: msgspec.Raw, *, gone: bool = False) -> str:
        """Report an object.  One that has not even a name is counted and skipped; the others are still reported."""
        try:
            if not gone:
                return self._sink.on_object(raw)
            self._sink.on_gone(raw)
        except Malformed as error:
            self._unreadable()
            _log.warning("object_unreadable", collection=self.root, name="", reason=str(error))
        return ""

    def _check_silence(self) -> None:
        """End the watch if it has been silent for too long; otherwise check again when it may be."""
        assert self._timer is not None
        self._timer.cancel()
        if self._scope.expired():
            return  # it is being ended already, and closing its connection takes a moment
        limit = self._pace.silence_seconds if self._opened else OPENING_SECONDS
        left = self._heard_at + limit - self._clock()
        if left <= 0:
            if self._opened and self._pace.rejections:
                self._fresh()
            self._scope.reschedule(self._loop.time())
        else:
            self._timer = self._loop.call_later(left, self._check_silence)
