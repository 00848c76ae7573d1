"""Everything the pages show, at one moment, collected without blocking the hub.

    survey(view, …) ─yields after every few nodes─▶ Snapshot

The caller that drives the survey decides how long a slice may take and lets the hub run in between.  So a snapshot is
not strictly of one moment: a node that changes during a survey may be shown correctly only in the next one.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.console.lines import NodeLine, node_line
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.view import HubView, SessionView
from fairlead_wire.event import short

SLICE_NODES = 16
PARKED_MAX = 200
"""Parked objects listed on a page; the groups count all."""
PARKED_OF_NODE_MAX = 100
"""Parked objects examined per node."""
GROUPS_MAX = 50
NOTICES_MAX = 20
RULES_MAX = 50
"""Listed SyncRules and EdgeRoutes with a problem."""


class ParkedLine(NamedTuple):
    """An object that is parked at one node."""

    node: str
    key: str
    code: str
    reason: str
    retries: int
    next_retry: int
    """Seconds since 1970."""


class ParkedGroup(NamedTuple):
    """Objects parked for the same cause."""

    code: str
    kind: str
    objects: int
    nodes: int
    example: str


class RefusedRoutes(NamedTuple):
    """An EdgeRoutes object that some of its nodes refuse, at least partly."""

    name: str
    nodes: int
    example: str
    """One of the nodes that refuse it."""
    error: str
    """The first error of that node."""


class UnreadableRule(NamedTuple):
    """A SyncRule or EdgeRoutes object that the hub cannot read."""

    kind: str
    name: str
    reason: str
    consequence: str


class PriorityQueues(NamedTuple):
    """All queues of one priority."""

    priority: int
    nodes: int
    length: int
    bytes: int = 0
    oldest_seconds: int = 0
    stalled: int = 0
    """Nodes whose queue is stalled."""
    stalled_by: str = ""


class ConsoleSnapshot(NamedTuple):
    """See the module docstring."""

    hub: str
    fence: int
    at: int
    """When the survey began, in seconds since 1970."""
    lines: Mapping[str, NodeLine]
    """Sorted by name."""
    states: Mapping[str, int]
    """Number of nodes in each state that occurs."""
    pending: int
    parked: int
    kept: int
    in_flight: int
    """Objects sent and not answered yet."""
    backoff: int
    """Objects that wait for a retry."""
    groups: tuple[ParkedGroup, ...]
    parked_objects: tuple[ParkedLine, ...]
    to_nodes: tuple[PriorityQueues, ...]
    from_nodes: tuple[PriorityQueues, ...]
    notices: tuple[str, ...]
    """Problems of the hub itself, one sentence each."""
    rules: tuple[UnreadableRule, ...] = ()
    routes: tuple[RefusedRoutes, ...] = ()
    unjudged: int = 0
    """Kept objects of which it is unknown whether they are wanted."""
    unjudged_why: str = ""


def empty(view: HubView, now: float) -> ConsoleSnapshot:
    """The snapshot before the first survey."""
    at = int(view.clock.seconds(now))
    return ConsoleSnapshot(view.name, view.fence, at, {}, {}, 0, 0, 0, 0, 0, (), (), (), (), ())


def survey(view: HubView, freshness: WatchHealth, now: float) -> Generator[None, None, ConsoleSnapshot]:
    """``now`` is when the survey begins.  Nodes that vanish meanwhile are left out."""
    lines: dict[str, NodeLine] = {}
    states: Counter[str] = Counter()
    found = _Sums()
    for number, name in enumerate(sorted(view.edge_nodes)):
        if number % SLICE_NODES == SLICE_NODES - 1:
            yield
        if name not in view.edge_nodes:
            continue
        session = view.session(name)
        line = lines[name] = node_line(view, name, session)
        states[line.state] += 1
        found.add(view, line, session)
    return ConsoleSnapshot(
        hub=view.name,
        fence=view.fence,
        at=int(view.clock.seconds(now)),
        lines=lines,
        states=states,
        pending=found.pending,
        parked=found.parked,
        kept=found.kept,
        unjudged=found.unjudged,
        unjudged_why=found.unjudged_why,
        in_flight=found.in_flight,
        backoff=found.backoff,
        groups=found.groups(),
        parked_objects=tuple(found.listed),
        to_nodes=tuple(sorted(found.to_nodes.values())),
        from_nodes=tuple(sorted(found.from_nodes.values())),
        notices=_bounded(list(_notices(view, freshness, now))),
        rules=tuple(itertools.islice(_unreadable_rules(view), RULES_MAX)),
        routes=tuple(itertools.islice(_refused_routes(view), RULES_MAX)),
    )


class _Sums:
    """Sums over the nodes visited so far."""

    def __init__(self) -> None:
        self.unjudged, self.unjudged_why = 0, ""
        self.pending = self.parked = self.kept = self.in_flight = self.backoff = 0
        self.listed: list[ParkedLine] = []
        self.to_nodes: dict[int, PriorityQueues] = {}
        self.from_nodes: dict[int, PriorityQueues] = {}
        self._groups: dict[tuple[str, str], ParkedGroup] = {}

    def add(self, view: HubView, line: NodeLine, session: SessionView | None) -> None:
        self.parked += line.parked
        if session is None:
            return
        self.pending += line.pending
        self.kept += session.kept
        self.unjudged += session.unjudged[0]
        self.unjudged_why = self.unjudged_why or session.unjudged[1]
        self.in_flight += session.in_flight
        self.backoff += session.backoff
        if line.parked:
            self._add_parked(view, line.name, list(itertools.islice(view.parked(line.name), PARKED_OF_NODE_MAX)))
        for priority, count in view.queued(line.name).items():
            before = self.to_nodes.get(priority, PriorityQueues(priority, 0, 0))
            self.to_nodes[priority] = before._replace(nodes=before.nodes + 1, length=before.length + count)
        edge = view.edge(line.name)
        for queue in edge.queues if edge is not None else ():
            if queue.length:
                before = self.from_nodes.get(queue.priority, PriorityQueues(queue.priority, 0, 0))
                self.from_nodes[queue.priority] = PriorityQueues(
                    priority=queue.priority,
                    nodes=before.nodes + 1,
                    length=before.length + queue.length,
                    bytes=before.bytes + queue.bytes,
                    oldest_seconds=max(before.oldest_seconds, int(queue.oldest_age_seconds)),
                    stalled=before.stalled + bool(queue.stalled_seconds),
                    stalled_by=before.stalled_by or (short(queue.stalled_by) if queue.stalled_seconds else ""),
                )

    def _add_parked(self, view: HubView, node: str, parked: list[Parked]) -> None:
        seen: set[tuple[str, str]] = set()
        for each in parked:
            cause = each.code, each.key.partition("/")[0]
            if cause not in self._groups and len(self._groups) >= GROUPS_MAX:
                cause = "other", ""
            group = self._groups.get(cause, ParkedGroup(*cause, 0, 0, short(each.reason)))
            nodes = group.nodes + (cause not in seen)
            self._groups[cause] = group._replace(objects=group.objects + 1, nodes=nodes)
            seen.add(cause)
            if len(self.listed) < PARKED_MAX:
                due = int(view.clock.seconds(each.next_retry_at))
                self.listed.append(ParkedLine(node, each.key, each.code, short(each.reason), each.retries, due))

    def groups(self) -> tuple[ParkedGroup, ...]:
        return tuple(sorted(self._groups.values(), key=lambda group: (-group.objects, group.code, group.kind)))


def _bounded(notices: list[str]) -> tuple[str, ...]:
    """Limit the notices, because every page and every frame contains all of them."""
    if len(notices) <= NOTICES_MAX:
        return tuple(notices)
    return *notices[:NOTICES_MAX], f"and {len(notices) - NOTICES_MAX} more of the kind"


def _notices(view: HubView, freshness: WatchHealth, now: float) -> Generator[str, None, None]:
    found: dict[str, Any] = view.stale(freshness, now)
    for one in found["stale"]:
        yield f"{one['collection']} are not followed since {one['since']}: {short(one['reason'])}"
    if found["recordsRefused"]["count"]:
        refused = found["recordsRefused"]
        yield f"{refused['count']} status documents are refused since {refused['since']}: {short(refused['reason'])}"


def _unreadable_rules(view: HubView) -> Generator[UnreadableRule, None, None]:
    for each in view.unreadable():
        yield UnreadableRule(each["kind"], each["name"], short(each["reason"]), each["consequence"])


def _refused_routes(view: HubView) -> Generator[RefusedRoutes, None, None]:
    for name, nodes, first in view.refused_routes():
        mistake: dict[str, str] = next(iter(first.get("errors") or ()), {})
        error = ": ".join(filter(None, (mistake.get("route"), mistake.get("message"))))
        yield RefusedRoutes(name, nodes, first["node"], short(error))
