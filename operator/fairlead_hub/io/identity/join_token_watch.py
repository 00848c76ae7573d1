"""Watches JoinTokens, and writes into each what the hub adds: its authorities' pins, its address, and names.

    watch ─▶ JoinTokens (read at each attempt)    a token without our pins ─▶ status.pins, status.url
                                                  uses not listed on one line ─▶ status.usedBy

So whoever creates a token reads all of this from the API, and knows that a hub has seen the token before a device
comes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead_hub.cluster import api_json
from fairlead_hub.identity import join_tokens
from fairlead_hub.identity.join_tokens import JoinTokenObject, JoinTokens
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.cluster.kube import MERGE_PATCH, Kube
from fairlead_wire.errors import Malformed
from fairlead_wire.io import logs
from fairlead_wire.objects import api_group
from fairlead_wire.objects.resource import is_newer

ROOT: Final = f"{api_group.ROOT}/jointokens"
GONE, CHANGED = 404, 409
RETRY_SECONDS: Final = 5.0
CHANGE_SECONDS: Final = 5.0
"""How long a write that met a newer version waits for the watch to report that version."""
_log = logs.get("hub.join_tokens")


class JoinTokenWatch:
    """A reflector's listener.  ``fill`` runs beside it."""

    def __init__(self, kube: Kube, tokens: JoinTokens, *, seconds_left: Callable[[], float]) -> None:
        self.tokens = tokens
        self._kube, self._seconds_left = kube, seconds_left
        self._pins: tuple[str, ...] = ()
        self._url = ""
        self._keeps_names = True
        """False if the cluster's definition is older than ``usedBy`` and drops it from what we write."""
        self._to_fill: set[str] = set()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()

    # ---- what the reflector calls ----------------------------------------------------------------

    def on_object(self, raw: msgspec.Raw) -> str:
        found = api_json.own(raw)
        header = found.header
        try:
            self.put(join_tokens.read(header.name, header.version, found.spec, found.status))
        except join_tokens.UnreadableToken as error:
            self.tokens.remove(header.name)
            _log.warning("join_token_unreadable", token=header.name, reason=str(error), remedy="delete it")
        return header.name

    def on_gone(self, raw: msgspec.Raw) -> None:
        self.tokens.remove(api_json.header(raw).name)
        self._changed.set()

    def on_listed(self, identities: set[str], version: str) -> None:
        self.tokens.keep(identities)
        self._changed.set()
        self._keeps_names = True  # the definition may have been upgraded
        self._check_all()

    def on_lost(self, restored: bool) -> None:
        """The next list tells."""

    def on_unlistable(self, reason: str, *, served: bool) -> None:
        remedy = "grant the hub's account get, list and watch on jointokens" if served else "kubectl apply -f crds"
        _log.error("join_tokens_unlistable", reason=reason, remedy=remedy)

    # ---- one token -------------------------------------------------------------------------------

    def put(self, token: JoinTokenObject) -> None:
        """Store the token as the watch reported it, or as the answer to our write says."""
        known = self.tokens.of(token.id)
        if known is not None and is_newer(known.version, token.version):
            return  # the watch repeats what the answer to our own write said before
        self.tokens.put(token)
        self._changed.set()
        self._check(token)

    async def newer(self, id: str, version: str) -> bool:
        """Wait until the watch has reported a version other than this one; False on timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CHANGE_SECONDS):
                while (token := self.tokens.of(id)) is not None and token.version == version:
                    self._changed.clear()
                    await self._changed.wait()
                return True
        return False

    # ---- what the hub writes into tokens ---------------------------------------------------------

    def announce(self, pins: tuple[str, ...], url: str) -> None:
        """Set what the hub writes into tokens; tokens that differ are written again."""
        if (pins, url) != (self._pins, self._url):
            self._pins, self._url = pins, url
            self._check_all()

    def _check_all(self) -> None:
        for token in self.tokens:
            self._check(token)

    def _check(self, token: JoinTokenObject) -> None:
        if self._pins and self._missing(token):
            self._to_fill.add(token.id)
            self._wake.set()

    def _missing(self, token: JoinTokenObject) -> dict[str, Any]:
        """The fields its status lacks, or that another hub wrote, perhaps one that did not know ``usedBy``."""
        found: dict[str, Any] = {}
        if (token.pins, token.url) != (self._pins, self._url):
            found |= {"pins": list(self._pins), "url": self._url}
        if self._keeps_names and token.used_by != (names := join_tokens.names(token.uses)):
            found["usedBy"] = names
        return found

    async def fill(self) -> None:
        """Run until cancelled: write missing fields into tokens."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._to_fill:
                id = self._to_fill.pop()
                if not await self._fill_one(id):
                    self._to_fill.add(id)
                    await asyncio.sleep(RETRY_SECONDS)

    async def _fill_one(self, id: str) -> bool:
        token = self.tokens.of(id)
        if token is None or not (status := self._missing(token)):
            return True
        # Names are those of the uses we know; the version ensures that they are complete.
        change = {"metadata": {"resourceVersion": token.version}, "status": status}
        try:
            answer = await self._kube.request(
                "PATCH", f"{ROOT}/{id}/status", change, content_type=MERGE_PATCH, seconds=self._seconds_left()
            )
            written = read(answer)
        except ApiRefused as error:
            done = error.status in (GONE, CHANGED)  # the watch will report its new version
            if not done:
                remedy = "grant the hub's account patch on jointokens/status"
                _log.error("join_token_unwritten", token=id, reason=str(error), remedy=remedy)
            return done
        except ApiUnavailable as error:
            _log.warning("join_token_unwritten", token=id, reason=str(error), retry_seconds=RETRY_SECONDS)
            return False
        except Malformed:
            return True  # a drop of usedBy is not an error
        if "usedBy" in status and written.used_by != status["usedBy"]:
            self._keeps_names = False
        self.put(written)
        return True


def read(raw: bytes) -> JoinTokenObject:
    """A JoinToken from the API server's answer.  Raises ``Malformed``."""
    found = api_json.own(raw)
    try:
        return join_tokens.read(found.header.name, found.header.version, found.spec, found.status)
    except join_tokens.UnreadableToken as error:
        raise Malformed(str(error)) from None
