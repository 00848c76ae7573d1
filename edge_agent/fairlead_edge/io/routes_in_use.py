"""Builds the router of the node's messages from its EdgeRoutes objects whenever one of them changes.

A copy of the objects is kept in a file beside the store, because a node that lost its routes would answer publishers as
if it had none: 200, and no delivery.  Only while the store lacks damaged objects, missing routes are taken from the
copy, until the hub has sent the objects again.
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
    """``use`` is called with each new router, or the reason why there is none; ``changed`` when a status changed."""

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
        """Refused routes that are logged already."""

    @property
    def statuses(self) -> Mapping[str, message.RoutesStatus]:
        """The status of each object."""
        return self._routes.statuses

    async def load(self) -> None:
        """Read the EdgeRoutes objects from the store, and from the copy if the store lacks damaged objects."""
        held, _ = await self._store.select(GROUP, node_routes.PLURAL)
        if self._store.lacking:
            known = {each.resource.name for each in held}
            held += [each for each in self._copy.read() if each.resource.name not in known]
        # The store keeps a kind after its last object is deleted: a node that ever had routes accepts messages.
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
    """The copy at ``path``.  It is not flushed, because it is needed only if something else fails as well."""

    def __init__(self, path: Path, access: FileAccess = PLAIN) -> None:
        self._path = path
        self._access = access

    def write(self, held: Iterable[HeldObject]) -> None:
        """Write the routes in use; if the disk refuses, the old copy stays."""
        content = msgspec.json.encode(list(held))
        draft = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            draft.write_bytes(self._access.seal(b"%08x %b" % (zlib.crc32(content), content), self._path.name))
            draft.replace(self._path)

    def read(self) -> list[HeldObject]:
        """The routes written last; none if the copy is damaged, too."""
        try:
            crc, content = self._access.unseal(self._path.read_bytes(), self._path.name).split(b" ", 1)
            return _decoder.decode(content) if int(crc, 16) == zlib.crc32(content) else []
        except (OSError, ValueError, RecursionError):
            return []


_log = logs.get("edge.app")
