"""The controller of EdgeRoutes: re-evaluates the result of an object at a node when either of them changes.

    an object came or changed ─object_changed─▶ ┐
    a node came, left, moved  ─node_changed──▶  ├─judge─▶ counts and failing nodes of each object (``RouteOutcomes``)
    a node said what it runs  ─said──────────▶  ┘
                                                 rows_of ─▶ EdgeNode ``status.routes``

Only what changed is evaluated, so thousands of nodes in sync cost nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairlead_hub.cluster import deletion_blocked, sync_rule
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.key_state import Cause, Withheld
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.status import node_routes, status_cache
from fairlead_hub.status.node_routes import RouteOutcome
from fairlead_wire import message

AWAY = RouteOutcome("Lagging", "the node is away")


class RoutesOutcomes:
    """One object at all the nodes it selects; implements ``edge_routes_status.RouteOutcomes``."""

    def __init__(self, row: Callable[[str], dict[str, Any]]) -> None:
        self._row = row
        self._of_node: dict[str, RouteOutcome] = {}
        self._refused: set[str] = set()
        self._warned: set[str] = set()
        self._lagging: set[str] = set()

    def put(self, node: str, outcome: RouteOutcome | None) -> bool:
        """None: it does not select this node (any more).  Returns True if the outcome changed."""
        if self._of_node.get(node) == outcome:
            return False
        for some in (self._refused, self._warned, self._lagging):
            some.discard(node)
        if outcome is None:
            del self._of_node[node]
            return True
        self._of_node[node] = outcome
        if outcome.state == "Refused":
            self._refused.add(node)
        if outcome.state == "Lagging":
            self._lagging.add(node)
        elif outcome.warned:
            self._warned.add(node)
        return True

    @property
    def selected(self) -> int:
        return len(self._of_node)

    @property
    def refused(self) -> int:
        return len(self._refused)

    @property
    def lagging(self) -> int:
        return len(self._lagging)

    def first_refused(self, limit: int) -> Sequence[Mapping[str, Any]]:
        return [{**self._row(node), "node": node} for node in heapq.nsmallest(limit, self._refused)]

    def first_warned(self, limit: int) -> Sequence[Mapping[str, Any]]:
        return [{**self._row(node), "node": node} for node in heapq.nsmallest(limit, self._warned)]

    def first_lagging(self, limit: int) -> Sequence[tuple[str, str]]:
        return [(node, self._of_node[node].why) for node in heapq.nsmallest(limit, self._lagging)]


class EdgeRoutesController:
    """See the module docstring.  ``sessions`` are the open ones, maintained by the hub."""

    def __init__(
        self, sessions: Mapping[str, NodeSession], placement: Placement, cache: status_cache.StatusCache
    ) -> None:
        self._sessions = sessions
        self._placement = placement
        self._cache = cache
        self._outcomes: dict[str, RoutesOutcomes] = {}
        self._said: dict[str, Mapping[str, message.RoutesStatus]] = {}
        """By node, in its current session: what it runs of each object."""
        self._unwritten: dict[str, list[dict[str, Any]]] = {}
        """Rows of nodes that disconnected before their EdgeNode was written."""
        self._standing: dict[str, tuple[status_cache.Observed, dict[str, tuple[Any, Any, RouteOutcome]]]] = {}
        """By node that is away: its EdgeNode as last read, and the outcomes in it."""
        self._objects: set[str] = set()
        self._nodes: set[str] = set()

    def of(self, name: str) -> RoutesOutcomes | None:
        """The last evaluation; None if there is no such object, or it is unreadable."""
        return self._outcomes.get(name)

    # ---- what happened ---------------------------------------------------------------------------

    def object_changed(self, name: str) -> None:
        self._objects.add(name)

    def node_changed(self, node: str) -> None:
        self._nodes.add(node)

    def received(self, node: str, routes: Mapping[str, message.RoutesStatus]) -> None:
        """What the node runs, by name of the object."""
        self._said[node] = routes
        self._nodes.add(node)

    def ended(self, node: str) -> None:
        """Its session is over.  Its last report remains valid, and may not be written yet."""
        said = self._said.pop(node, None)
        if said:
            rows = [self._row_as_said(node, routes, said) for routes in self._of_node(node)]
            self._unwritten[node] = node_routes.bounded(row for row in rows if row is not None)
        self._nodes.add(node)

    def observed(self, node: str, status: Mapping[str, Any]) -> None:
        """Its EdgeNode as it is in the API."""
        if node in self._unwritten and list(node_routes.rows_in(status).values()) == self._unwritten[node]:
            del self._unwritten[node]
        if node not in self._sessions:
            self._nodes.add(node)

    def forget(self, node: str) -> None:
        """The Node is gone."""
        self._said.pop(node, None)
        self._unwritten.pop(node, None)
        self._standing.pop(node, None)
        self._nodes.add(node)

    # ---- what follows ----------------------------------------------------------------------------

    def judge(self) -> set[str]:
        """Evaluate what changed since the last call.  Returns the objects whose outcome changed."""
        objects, self._objects = self._objects, set()
        nodes, self._nodes = self._nodes, set()
        news = set(objects)
        for name in objects:
            routes = self._placement.rules.routes.get(name)
            if routes is None:
                self._outcomes.pop(name, None)
            else:
                self._outcomes.setdefault(name, RoutesOutcomes(self._row_for(name)))
                for node in self._placement.rules.nodes:
                    self._judge(node, routes)
        for node in nodes:
            for routes in self._placement.rules.routes.values():
                if routes.name in self._outcomes and self._judge(node, routes):
                    news.add(routes.name)
        return news

    def rows_of(self, node: str) -> list[dict[str, Any]]:
        """The rows for ``status.routes`` of its EdgeNode."""
        if node not in self._sessions:
            return list(self._written(node).values())
        objects, said = self._of_node(node), self._said.get(node, {})
        # The document is read only if the node has not reported anything yet: this may be called for all nodes.
        before = self._written(node) if any(routes.name not in said for routes in objects) else {}
        return node_routes.bounded(self._row(node, routes, before) for routes in objects)

    def _of_node(self, node: str) -> list[sync_rule.Routes]:
        """Objects that select it."""
        labels = self._placement.rules.nodes.get(node)
        if labels is None:
            return []
        return [routes for routes in self._placement.rules.routes.values() if routes.nodes.matches(labels)]

    def _judge(self, node: str, routes: sync_rule.Routes) -> bool:
        labels = self._placement.rules.nodes.get(node)
        selected = labels is not None and routes.nodes.matches(labels)
        return self._outcomes[routes.name].put(node, self._outcome(node, routes) if selected else None)

    def _outcome(self, node: str, routes: sync_rule.Routes) -> RouteOutcome:
        key = f"{deletion_blocked.EDGE_ROUTES_TYPE}//{routes.name}"
        session, live = self._sessions.get(node), self._placement.object_cache.get(key)
        if session is None or live is None:
            uid, generation, outcome = self._stands(node).get(routes.name, ("", 0, AWAY))
            return outcome if (uid, generation) == (routes.uid, routes.generation) else AWAY
        if not session.keys.live:
            return RouteOutcome("Lagging", "the node has just returned")
        held = session.keys.held.get(key)
        if held is None or held.content_id != live.content_id:
            return RouteOutcome("Lagging", f"version {live.version} is not delivered: {_why_not(session, key)}")
        said = self._said.get(node, {}).get(routes.name)
        if said is None or said.uid != live.uid or said.digest not in ("", live.digest):
            return RouteOutcome("Lagging", f"the node has not reported what it makes of version {live.version}")
        return node_routes.judged(said.errors, said.warnings)

    def _row_for(self, name: str) -> Callable[[str], dict[str, Any]]:
        def row(node: str) -> dict[str, Any]:
            routes = self._placement.rules.routes.get(name)
            before = self._written(node)
            if routes is None or node not in self._sessions:
                return before.get(name, {})
            return self._row(node, routes, before)

        return row

    def _row(self, node: str, routes: sync_rule.Routes, before: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        outcome, said = self._outcome(node, routes), self._said.get(node, {}).get(routes.name)
        if said is None or said.uid != routes.uid:
            return node_routes.lagging_row(routes, before.get(routes.name), outcome)
        return node_routes.row_of(routes, said, outcome)

    def _row_as_said(
        self, node: str, routes: sync_rule.Routes, said: Mapping[str, message.RoutesStatus]
    ) -> dict[str, Any] | None:
        one = said.get(routes.name)
        live = self._placement.object_cache.get(f"{deletion_blocked.EDGE_ROUTES_TYPE}//{routes.name}")
        if one is None or live is None or one.uid != live.uid:
            return None
        current = one.digest in ("", live.digest)
        outcome = node_routes.judged(one.errors, one.warnings) if current else AWAY
        return node_routes.row_of(routes, one, outcome)

    def _stands(self, node: str) -> dict[str, tuple[Any, Any, RouteOutcome]]:
        if (rows := self._unwritten.get(node)) is not None:
            return node_routes.standing({"routes": rows})
        observed = self._cache.observed.get((EDGE_NODES, "", node))
        if observed is None:
            return {}
        known = self._standing.get(node)
        if known is None or known[0] is not observed:
            known = self._standing[node] = (observed, node_routes.standing(observed.status))
        return known[1]

    def _written(self, node: str) -> dict[str, dict[str, Any]]:
        """By object: what its EdgeNode says, or is about to say."""
        if (rows := self._unwritten.get(node)) is not None:
            return {row["name"]: row for row in rows}
        observed = self._cache.observed.get((EDGE_NODES, "", node))
        return node_routes.rows_in(observed.status) if observed is not None else {}


def _why_not(session: NodeSession, key: str) -> str:
    """Without times, which would change the status every second."""
    match session.keys.state_of(key):
        case Parked(code=code, reason=reason):
            return f"parked, {code}: {reason}"
        case Withheld(cause=Cause.PAUSE, why=why):
            return f"paused: {why}"
        case Withheld(why=why):
            return why
    return f"paused: {session.keys.paused}" if session.keys.paused else "on its way"
