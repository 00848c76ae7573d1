"""Which queues a message goes into: all routes are evaluated, and each endpoint gets the message once.

    message ─▶ routes that match its source ─▶ those whose condition is true ─▶ the best of each endpoint ─▶ RouteTarget

The best route of an endpoint is the one with the lowest priority number; among equals, the one with the longest time to
live, then the one whose name sorts first.  Its time to live and topic are stored with the message: a later manifest
does not change them.  If the route has no time to live, the EdgeRoutes object that provides it is stored instead.  A
message that only a refused route would take is held, and routed again when the routes change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_edge.outbox.manifest import Manifest, ManifestRoute, RefusedRoute
from fairlead_edge.outbox.queues import HELD_INPUT, QueueId
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_edge.routes.message import RoutedMessage
from fairlead_edge.routes.values import Undefined

SOURCES_MAX: Final = 1024
"""How many sources are cached with their routes; a node has a few dozen, more than this are a fault or an attack."""


class RouteTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint that a message goes to.

    `ttl_seconds` None: never expires; `inherits` names the EdgeRoutes object it comes from, "" for the route itself.
    `topic` is empty for an endpoint on this node. `routes` names all routes that matched, the deciding one first.
    """

    endpoint: str
    queue: QueueId
    priority: int
    ttl_seconds: float | None
    topic: str
    inherits: str = ""
    routes: tuple[str, ...]


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message is held that only a refused route would, or might, take; and which route, and why it is
    refused."""

    queue: QueueId
    ttl_seconds: int | None
    route: str
    origin: str
    reason: str


class _Candidate(msgspec.Struct, frozen=True):
    run: Callable[[RoutedMessage], bool | Undefined]
    delivery: RouteTarget


class Router:
    """The routes of one manifest, compiled and ranked once. A new manifest is a new router."""

    def __init__(self, manifest: Manifest, node: str) -> None:
        self._routes = sorted(manifest.routes, key=rank)
        self._node = node
        self.defaults = manifest.defaults
        """By EdgeRoutes object, the time to live of messages whose route has none."""
        self._by_source: dict[str, list[_Candidate]] = {}
        self._refused = sorted(manifest.refused, key=_refused_rank)

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that a message may be sent to."""
        return frozenset(route.topic for route in self._routes if not route.route.sink.module)

    def route(self, message: RoutedMessage, source: str) -> list[RouteTarget]:
        """Where the message goes, by endpoint; empty when no route took it."""
        candidates = self._by_source.get(source)
        if candidates is None:
            candidates = self._candidates(source)
        best: dict[str, RouteTarget] = {}
        also: dict[str, list[str]] = {}
        for candidate in candidates:
            if candidate.run(message) is True:
                delivery = candidate.delivery
                if delivery.endpoint in best:
                    also.setdefault(delivery.endpoint, []).extend(delivery.routes)
                else:
                    best[delivery.endpoint] = delivery
        for endpoint, names in also.items():
            best[endpoint] = msgspec.structs.replace(best[endpoint], routes=(*best[endpoint].routes, *names))
        return [best[endpoint] for endpoint in sorted(best)]

    def hold(self, message: RoutedMessage, source: str) -> Hold | None:
        """Where to hold a message that no route took; None if no refused route would take it either."""
        for refused in self._refused:
            if refused.source.matches(source) and refused.would_take(message):
                return Hold(
                    queue=QueueId(f"{self._node}/{HELD_INPUT}", refused.priority),
                    ttl_seconds=refused.ttl_seconds,
                    route=refused.name,
                    origin=refused.origin,
                    reason=refused.reason,
                )
        return None

    def _candidates(self, source: str) -> list[_Candidate]:
        if len(self._by_source) >= SOURCES_MAX:
            self._by_source.clear()
        found = [
            _Candidate(route.route.condition.run, _delivery(route, self._node))
            for route in self._routes
            if route.route.source.matches(source)
        ]
        self._by_source[source] = found
        return found


def _refused_rank(route: RefusedRoute) -> tuple[int, float, str, str]:
    return route.priority, -(math.inf if route.ttl_seconds is None else route.ttl_seconds), route.name, route.origin


def rank(route: ManifestRoute) -> tuple[int, float, str]:
    """The sort key that puts the deciding route first: lowest priority, longest time to live, first name."""
    return route.priority, -(math.inf if route.ttl_seconds is None else route.ttl_seconds), route.name


def _delivery(route: ManifestRoute, node: str) -> RouteTarget:
    endpoint = route.route.sink.endpoint(node)
    return RouteTarget(
        endpoint=endpoint,
        queue=QueueId(endpoint, route.priority),
        priority=route.priority,
        ttl_seconds=route.ttl_seconds,
        topic=route.topic if endpoint == UPSTREAM else "",
        inherits=route.origin if route.inherits else "",
        routes=(route.name,),
    )
