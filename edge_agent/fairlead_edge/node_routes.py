"""The routes of this node: all its EdgeRoutes objects, merged, and the status of each.

EdgeRoutes arrive like any other object.  After each change the router is rebuilt from all of them and replaces the old
one as a whole, so that no message is routed by half a change.  If a new version of an object is not a valid manifest,
the last valid version stays in force, and the status says why; the store keeps it as the object's fallback, so that it
survives a restart.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Final

from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.watch_history import VersionedChange
from fairlead_edge.outbox import manifest
from fairlead_edge.outbox.manifest import RefusedRoute
from fairlead_edge.outbox.router import Router
from fairlead_wire import message
from fairlead_wire.objects.api_group import GROUP
from fairlead_wire.objects.resource import Resource
from fairlead_wire.validation.mistakes import Mistake

PLURAL: Final = "edgeroutes"
REASONS_MAX: Final = 5
"""How many reasons a response to a publisher names; the status has the rest."""
WARNINGS_MAX: Final = 32
"""How many warnings of one object are reported; ``fairlead routes check`` shows all."""


def is_usable(resource: Resource, content: bytes) -> bool:
    """Whether the object needs no fallback: EdgeRoutes must be valid manifests; other kinds are always usable."""
    if (resource.group, resource.plural) != (GROUP, PLURAL):
        return True
    try:
        manifest.parse(content)
    except manifest.ManifestError:
        return False
    return True


class NodeRoutes:
    """The routes of a node.

    ``held``: the current EdgeRoutes objects; ``fallbacks``: the last valid versions of those that are not valid
    manifests; ``ever``: the node has had EdgeRoutes before; ``default_ttl_seconds``: for objects that set none.

    ``router`` is None until the first usable routes arrive; ``statuses`` are by object name, for the hub.
    """

    def __init__(
        self,
        node: str,
        held: list[HeldObject],
        *,
        ever: bool,
        fallbacks: Sequence[HeldObject] = (),
        default_ttl_seconds: int = manifest.DEFAULT_TTL_SECONDS,
    ) -> None:
        self._node = node
        self._default_ttl_seconds = default_ttl_seconds
        self._held = {each.resource.name: each for each in held}
        self._good: dict[str, tuple[str, manifest.Manifest]] = {}
        """By object name: the UID and the newest valid manifest."""
        for each in fallbacks:
            with contextlib.suppress(manifest.ManifestError):  # another version of this program found it valid
                self._good[each.resource.name] = (each.uid, self._parse(each))
        self.router: Router | None = None
        self.unusable = ""
        """Why there is no router although there are routes; "" otherwise."""
        self.statuses: dict[str, message.RoutesStatus] = {}
        if held or ever:
            self._build()

    @property
    def held(self) -> list[HeldObject]:
        """The current EdgeRoutes objects."""
        return list(self._held.values())

    def follow(self, change: VersionedChange[HeldObject]) -> bool:
        """Apply a change of the store; True if it was an EdgeRoutes object, so that the router was rebuilt."""
        at = change.subject.resource
        if (at.group, at.plural) != (GROUP, PLURAL):
            return False
        if change.current is None:
            self._held.pop(at.name, None)
            self._good.pop(at.name, None)
        else:
            self._held[at.name] = change.current
        self._build()
        return True

    def _parse(self, held: HeldObject) -> manifest.Manifest:
        return manifest.parse(held.content, default_ttl_seconds=self._default_ttl_seconds)

    def _build(self) -> None:
        manifests: list[tuple[str, manifest.Manifest]] = []
        refused: dict[str, tuple[Mistake, ...]] = {}
        for name, held in self._held.items():
            try:
                self._good[name] = (held.uid, self._parse(held))
            except manifest.ManifestError as error:
                refused[name] = error.mistakes
            uid, good = self._good.get(name, ("", None))
            if good is not None and uid == held.uid:
                manifests.append((name, good))
        merged = manifest.merge(manifests)
        unread = [
            RefusedRoute(name="", reason=str(mistakes[0]), origin=name)
            for name, mistakes in refused.items()
            if name not in dict(manifests)
        ]
        merged = dataclasses.replace(merged, refused=(*merged.refused, *unread))
        self.unusable = "" if merged.routes else _unusable(refused, merged)
        self.router = None if self.unusable else Router(merged, self._node)
        self.statuses = {name: _status(held, merged, refused.get(name, ())) for name, held in self._held.items()}


def _unusable(refused: dict[str, tuple[Mistake, ...]], merged: manifest.Manifest) -> str:
    """Why no route can be used, because messages would be accepted and go nowhere; "" if no routes are defined."""
    reasons = [f"EdgeRoutes {name}: {mistakes[0]}" for name, mistakes in refused.items()]
    reasons += [f"EdgeRoutes {bad.origin}: route {bad.name}: {bad.message}" for bad in merged.quarantined]
    return "; ".join(reasons[:REASONS_MAX])


def _status(held: HeldObject, merged: manifest.Manifest, mistakes: tuple[Mistake, ...]) -> message.RoutesStatus:
    name = held.resource.name
    mine = [route for route in merged.routes if route.origin == name]
    errors = [
        message.RouteError(
            route="", message=str(each.below("spec") if each.key else each), line=1, column=1, end_column=1
        )
        for each in mistakes
    ]
    errors += [_reported(bad) for bad in merged.quarantined if bad.origin == name]
    return message.RoutesStatus(
        uid=held.uid,
        resource_version=held.resource_version,
        accepted=sorted(route.name for route in mine),
        errors=errors,
        topics=sorted({route.topic for route in mine if not route.route.sink.module}),
        digest=held.digest,
        warnings=[_reported(each) for each in merged.warnings if each.origin == name][:WARNINGS_MAX],
    )


def _reported(bad: manifest.RouteProblem) -> message.RouteError:
    """A mistake for the status; one without a position in the route's text gets the path in the object."""
    text = f"spec.routes.{bad.name}.{bad.message}" if bad.key else bad.message
    line, column, end_column = bad.line or 1, bad.column or 1, bad.end_column or 1
    return message.RouteError(route=bad.name, message=text, line=line, column=column, end_column=end_column)
