"""Follows one kind that rules name, at the first of the named versions that is served.

    discovery ─ which versions are served ─▶ Hub.kind_served
        └─ the first one ─▶ Reflector ─▶ its sink          none, or unlisted for long: frozen, and tried again

A version that is not served affects the rules that name it.  A kind the API server does not answer for (its extension
server is away) affects objects selected by that kind, and delays no node for other kinds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from fairlead_hub.cluster import api_json
from fairlead_hub.cluster.content import GroupKind, ServedKind
from fairlead_hub.hub import Hub
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable, decoded
from fairlead_hub.io.cluster.kube import Kube
from fairlead_wire.errors import Malformed
from fairlead_wire.io import logs
from fairlead_wire.validation import mistakes

DISCOVERY_RETRY_SECONDS = 5.0
UNLISTED_SECONDS = 15.0
"""A kind that is not listed for this long counts as unlistable: its objects stay, and nodes no longer wait for it."""
_log = logs.get("hub.kind_watch")


class KindWatch:
    """``want`` sets the apiVersions in order of preference; ``run`` follows until cancelled."""

    def __init__(
        self,
        kube: Kube,
        hub: Hub,
        kind: GroupKind,
        reflect: Callable[[ServedKind], Coroutine[Any, Any, None]],
        *,
        clock: Callable[[], float],
    ) -> None:
        self._kube, self._hub, self._kind, self._reflect = kube, hub, kind, reflect
        self._clock = clock
        self._versions: tuple[str, ...] = ()
        self._changed = asyncio.Event()
        self._followed: ServedKind | None = None
        self._unlisted_since: float | None = None

    def want(self, versions: tuple[str, ...]) -> None:
        if versions != self._versions:
            self._versions = versions
            self._changed.set()

    async def run(self) -> None:
        task: asyncio.Task[None] | None = None
        async with asyncio.TaskGroup() as group:
            while True:
                if self._changed.is_set() or not self._is_settled:
                    self._changed.clear()
                    found = await self._discover()
                    if found is not None and not _is_same(found, self._followed):
                        if task is not None:
                            task.cancel()
                            self._hub.cluster.kind_unsynced(self._kind)
                        self._followed = found
                        self._hub.cluster.know_kind(found)
                        task = group.create_task(self._reflect(found), name=f"watch {found.root}")
                    elif task is not None and self._is_unnamed:
                        task.cancel()
                        task, self._followed = None, None
                        self._hub.cluster.kind_unsynced(self._kind)
                self._give_up()
                try:
                    async with asyncio.timeout(DISCOVERY_RETRY_SECONDS):
                        await self._changed.wait()
                except TimeoutError:
                    pass

    @property
    def _is_settled(self) -> bool:
        """Whether every version was found and the kind is listed."""
        return self._followed is not None and self._hub.cluster.is_settled(self._kind, self._versions)

    @property
    def _is_unnamed(self) -> bool:
        """Whether rules no longer name the version being followed, and the versions they name are not served."""
        followed = self._followed
        unserved = self._hub.cluster.is_unserved(self._kind)
        return unserved and followed is not None and followed.api_version not in self._versions

    async def _discover(self) -> ServedKind | None:
        """The first version that is served; None if none is, or if that is unknown now."""
        answers: dict[str, str] = {}
        found: ServedKind | None = None
        for version in self._versions:
            try:
                kind = await discover(self._kube, version, self._kind[1])
            except ApiUnavailable as error:
                _log.warning("discovery_unavailable", kind=self._kind[1], version=version, reason=str(error))
                return None
            except ApiRefused as error:
                answers[version] = str(error)
                if not self._hub.cluster.is_unserved(self._kind, version):
                    remedy = "name a version that kubectl api-resources lists"
                    _log.warning("kind_unserved", kind=self._kind[1], version=version, reason=str(error), remedy=remedy)
            else:
                answers[version] = ""
                found = found or kind
        self._hub.cluster.kind_served(self._kind, answers)
        return found

    def _give_up(self) -> None:
        """Stop nodes from waiting forever for a kind that the API server neither lists nor refuses."""
        if not self._hub.cluster.is_pending(self._kind):
            self._unlisted_since = None
            return
        if self._unlisted_since is None:
            self._unlisted_since = self._clock()
        elif self._clock() - self._unlisted_since >= UNLISTED_SECONDS:
            reason = f"the API server has not listed it for {UNLISTED_SECONDS:.0f} s"
            _log.warning("kind_unlisted", kind=self._kind[1], reason=reason)
            self._hub.cluster.kind_frozen(self._kind, reason)


def _is_same(one: ServedKind, other: ServedKind | None) -> bool:
    """Whether both are the same kind; short names do not matter for following it."""
    return other is not None and (one.root, one.namespaced) == (other.root, other.namespaced)


class _DiscoveryRow(msgspec.Struct):
    """One row of a discovery document."""

    name: str
    kind: str
    namespaced: bool
    verbs: list[str]
    singular: str = msgspec.field(name="singularName", default="")
    short: list[str] | None = msgspec.field(name="shortNames", default=None)


class _Discovered(msgspec.Struct):
    resources: list[msgspec.Raw] | None


_served = msgspec.json.Decoder(_DiscoveryRow)
_discovered = msgspec.json.Decoder(_Discovered)


async def discover(kube: Kube, api_version: str, kind: str) -> ServedKind:
    """What the API server serves under this name.  Raises ``ApiUnavailable``, ``ApiRefused`` (404: not served)."""
    group, slash, version = api_version.rpartition("/")
    root = f"apis/{api_version}" if slash else f"api/{api_version}"
    listed = decoded(_discovered, await kube.get(root), root)
    others: dict[str, str] = {}
    for row in listed.resources or ():
        try:
            item = api_json.decode(_served, row)
        except Malformed:
            continue  # a row of another kind must not hide this one
        if "/" in item.name or "list" not in item.verbs:
            continue
        if item.kind == kind:
            return ServedKind(
                short_names=frozenset((item.singular or kind.lower(), *(item.short or ()))),
                group=group,
                version=version,
                kind=kind,
                plural=item.name,
                namespaced=item.namespaced,
            )
        others |= dict.fromkeys([item.kind, item.name, item.singular, *(item.short or ())], item.kind)
    # Also a name by which kubectl takes it: configmap, cm.
    meant = others.get(kind.lower()) or mistakes.nearest(kind, others.values())
    hint = f"; did you mean {meant}?" if meant else ": check apiVersion (kubectl api-resources shows it)"
    raise ApiRefused(404, f"the API server has no listable kind {kind} in {api_version}{hint}", "NotFound")
