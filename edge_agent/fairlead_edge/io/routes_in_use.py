"""The EdgeRoutes objects this node holds, turned into the router of its messages whenever one of them changes.

They are kept once more in a file beside the store: a node that lost its routes would answer publishers as one that has
none: 200, and no delivery.  Where the store lacks what the disk damaged, and only there, the routes last used are taken
from this copy until the hub sent what is missing.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from fairlead_edge import node_routes
from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_edge.node_routes import NodeRoutes
from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.watch_history import VersionedChange
from fairlead_edge.outbox import manifest
from fairlead_edge.outbox.router import Router
from fairlead_wire import message
from fairlead_wire.io import logs
from fairlead_wire.objects import api_group
from fairlead_wire.objects.api_group import GROUP

_decoder = msgspec.json.Decoder(list[HeldObject])


class RoutesInUse:
    """``use`` gets each new router, or why there is none; ``changed`` is called when a status is new."""

    def __init__(
        self,
        node: str,
        store: SqliteMetastore,
        copy: RoutesCopy,
        *,
        default_ttl_seconds: int = manifest.DEFAULT_TTL_SECONDS,
        use: Callable[[Router | None, str], None],
        changed: Callable[[], None],
    ) -> None:
        self._node = node
        self._store = store
        self._copy = copy
        self._default_ttl_seconds = default_ttl_seconds
        self._use = use
        self._changed = changed
        self._routes = NodeRoutes(node, [], ever=False)
        self._refused: set[tuple[str, str, str]] = set()
        """Refused routes that were logged: each is logged once, and again when it was repaired in between."""

    @property
    def statuses(self) -> Mapping[str, message.RoutesStatus]:
        """The status of each object."""
        return self._routes.statuses

    async def load(self) -> None:
        """Read the held objects; where the disk lost some, also the copy beside the store."""
        held, _ = await self._store.select(GROUP, node_routes.PLURAL)
        if self._store.lacking:
            known = {each.resource.name for each in held}
            held += [each for each in self._copy.read() if each.resource.name not in known]
        # Kinds are remembered after their last object went: a node that ever had routes answers publishers.
        ever = any(
            (kind.group, kind.plural) == (api_group.GROUP, node_routes.PLURAL) for kind in await self._store.kinds()
        )
        fallbacks = await self._store.fallbacks(api_group.GROUP, node_routes.PLURAL)
        self._routes = NodeRoutes(
            self._node, held, ever=ever, fallbacks=fallbacks, default_ttl_seconds=self._default_ttl_seconds
        )
        self._put_in_use()

    def follow(self, change: VersionedChange[HeldObject]) -> None:
        """An object changed; other kinds than EdgeRoutes are ignored."""
        if self._routes.follow(change):
            self._put_in_use()

    def _put_in_use(self) -> None:
        self._use(self._routes.router, self._routes.unusable)
        if self._routes.router is None and not self._routes.unusable:
            return
        self._copy.write(self._routes.held)
        self._changed()
        refused = set()
        for name, status in self._routes.statuses.items():
            _log.info("routes_in_use", object=name, accepted=len(status.accepted), refused=len(status.errors))
            refused |= {(name, error.route, error.message) for error in status.errors}
        for name, route, reason in sorted(refused - self._refused):
            _log.warning("route_refused", object=name, route=route, reason=reason)
        self._refused = refused


class RoutesCopy:
    """The copy at ``path``; not flushed, for it is of use only when something else fails as well."""

    def __init__(self, path: Path, access: FileAccess = PLAIN) -> None:
        self._path = path
        self._access = access

    def write(self, held: Iterable[HeldObject]) -> None:
        """Write the routes now in use; when the disk takes nothing, the older ones stay."""
        content = msgspec.json.encode(list(held))
        draft = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            draft.write_bytes(self._access.seal(b"%08x %b" % (zlib.crc32(content), content), self._path.name))
            draft.replace(self._path)

    def read(self) -> list[HeldObject]:
        """The routes written last; none when the copy is damaged, too."""
        try:
            crc, content = self._access.unseal(self._path.read_bytes(), self._path.name).split(b" ", 1)
            return _decoder.decode(content) if int(crc, 16) == zlib.crc32(content) else []
        except (OSError, ValueError, RecursionError):
            return []


_log = logs.get("edge.app")
