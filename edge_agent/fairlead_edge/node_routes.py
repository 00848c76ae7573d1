"""The routes of this node: every EdgeRoutes object it holds, merged, and the status of each.

EdgeRoutes come down like any other object; whichever change arrives, the node's router is rebuilt from all of
them and replaces the old one as a whole, so that no message is ever routed by half a change.  A version that is refused
as a whole (no manifest at all) leaves the object's last good one in force, and its status says why; the store keeps
that one as the object's fallback, so that a restart or a crash changes nothing.
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
"""In the response to a publisher; the status has the rest."""
WARNINGS_MAX: Final = 32
"""How many warnings of one object are reported; ``fairlead routes check`` shows all."""


def is_usable(resource: Resource, content: bytes) -> bool:
    """For the store: an EdgeRoutes object that is not a manifest needs a fallback; other kinds are not judged here."""
    if (resource.group, resource.plural) != (GROUP, PLURAL):
        return True
    try:
        manifest.parse(content)
    except manifest.ManifestError:
        return False
    return True


class NodeRoutes:
    """``held``: the current EdgeRoutes objects; ``fallbacks``: the last good version of those that are not manifests.

    ``ever``: some were held before, even if none are now; ``default_ttl_seconds``: for objects that set none.

    ``router`` is None until the first usable routes arrived; ``statuses`` are by object name, for the hub.
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
            with contextlib.suppress(manifest.ManifestError):  # good for the program that kept it, not for this one
                self._good[each.resource.name] = (each.uid, self._parse(each))
        self.router: Router | None = None
        self.unusable = ""
        """Why there is no router although routes have arrived; "" otherwise."""
        self.statuses: dict[str, message.RoutesStatus] = {}
        if held or ever:
            self._build()

    @property
    def held(self) -> list[HeldObject]:
        """The objects these are the routes of."""
        return list(self._held.values())

    def follow(self, change: VersionedChange[HeldObject]) -> bool:
        """Apply a change of the store; True when it concerned routes, so that there is a new router."""
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
    """Why no route can be used; "" when none was requested.  A message would be accepted and go nowhere."""
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
    """Without a place inside the route's text, the path in the object says more than line 1, column 1."""
    text = f"spec.routes.{bad.name}.{bad.message}" if bad.key else bad.message
    line, column, end_column = bad.line or 1, bad.column or 1, bad.end_column or 1
    return message.RouteError(route=bad.name, message=text, line=line, column=column, end_column=end_column)
