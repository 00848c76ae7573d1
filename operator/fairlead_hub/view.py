"""Read access to the hub's core: for the console, metrics, ``/v1`` endpoints, and services of the shell.

    Hub ─view─▶ HubView ─┬─ nodes, node, explained, stale, unreadable ─▶ rows of ``/v1``
                         ├─ session, account, edge, … (one node) ─────▶ console, row by row
                         └─ totals ────────────────────────────────────▶ metrics

Read-only: every answer is a value, built when requested, and nothing is cached.  So it costs nothing without readers,
and the caller decides how many nodes it reads before the hub gets its turn
(docs/decisions/0851-console-survey-is-shared-and-sliced.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Set
from typing import Any

import msgspec

from fairlead_hub import explain
from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.content import EDGE_ROUTES, LiveObject, ServedKind
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.core.certificates import Certificates
from fairlead_hub.core.reports import Reports
from fairlead_hub.core.sessions import Sessions
from fairlead_hub.counts import Counts
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.key_state import BackingOff, Cause, KeyInFlight, Queued, Withheld
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.delivery.unsynced_keys import UnsyncedKeys
from fairlead_hub.settings import HubSettings
from fairlead_hub.status import edge_node, sync_rule_status
from fairlead_hub.status.rule_statuses import RuleStatuses
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.objects import api_group

DELIVERIES = ("upstream", "brokered")
LIST_MAX = 100
"""Pending and parked keys listed per node."""


class SessionView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One node's session in numbers."""

    live: bool
    """Whether it is known what the node holds."""
    not_synced: str
    """Why the comparison has not begun; empty if it has."""
    pending: int
    oldest: float | None
    """Since when the oldest object is pending, by the monotonic clock; None if none is."""
    parked: int
    kept: int
    unjudged: tuple[int, str]
    """Kept objects for which it is unknown whether they are wanted: their number, and the first reason."""
    """Objects that are not deleted although they are not wanted there."""
    in_flight: int
    backoff: int
    held: int
    agent: str
    guard: str
    """Why deletions are stopped; empty if they are not."""


class HubTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over all nodes; ages in seconds."""

    nodes: int
    connected: int
    comparing: int
    to_return: int
    objects: int
    objects_paused: int
    queued: int
    in_flight: int
    pending: int
    pending_oldest: float
    parked: int
    kept: int
    withheld: int
    status_lag: float
    unwritten: int
    refused_writes: int
    kinds_frozen: int
    versions_unserved: int
    nodes_paused: int
    nodes_guarded: int
    away_waiting: int
    identities_held: int
    rate_waiting: int
    rate_delays: int
    events_dropped: int
    rules_unreadable: Mapping[str, int]
    """By collection."""
    issuers: Mapping[tuple[str, bool], int]
    """Nodes by the authority of their newest certificate, and whether they are connected."""
    authorities: Mapping[str, int]
    """Connected nodes by the authorities they trust."""


class HubView:
    """See the module docstring.  ``now`` is always seconds of one monotonic clock, ``clock`` converts it to text."""

    def __init__(
        self,
        settings: HubSettings,
        name: str,
        *,
        desired_state: DesiredState,
        sessions: Sessions,
        certificates: Certificates,
        rule_statuses: RuleStatuses,
        reports: Reports,
        counts: Counts,
        clock: WallClock,
    ) -> None:
        self.settings, self.name, self.clock = settings, name, clock
        self.counts = counts
        """Totals since the start."""
        self._desired_state = desired_state
        self._placement, self._rules = desired_state.placement, desired_state.placement.rules
        self._sessions = sessions.index.by_node
        self._rate = sessions.index.rate
        self._terms = sessions.terms
        self._certificates = certificates
        self._routes, self._cache = rule_statuses.routes, rule_statuses.cache
        self._sync_controller, self._cloud_events = reports.sync_controller, reports.cloud_events

    @property
    def fence(self) -> int:
        return self._cache.fence

    @property
    def unwritten(self) -> int:
        """Number of documents that wait to be written."""
        return len(self._cache)

    # ---- nodes and topics, for services ----------------------------------------------------------

    @property
    def nodes_known(self) -> bool:
        """Whether Nodes are listed."""
        return self._placement.listed.nodes

    @property
    def edge_nodes(self) -> Set[str]:
        """Names of the edge Nodes, as far as they are listed."""
        return self._rules.nodes.keys()

    def node_uid(self, node: str) -> str:
        """UID of its Node; empty if there is none."""
        return self._terms.node_status.node_uids.get(node, "")

    def topics(self, node: str) -> frozenset[str]:
        """The topics it may publish to."""
        return self._terms.grants.of(node)

    def all_topics(self) -> frozenset[str]:
        """Every topic EdgeRoutes name; they are created before anything is published."""
        return self._terms.grants.topics()

    def topics_unknown(self) -> str:
        """Why topics cannot be judged yet; empty if they can."""
        for name in ("nodes", "edgeroutes"):
            if name not in self._placement.listed.inputs:
                return f"{name} are not listed yet"
        return "" if EDGE_NODES in self._cache.synced else "edgenodes are not listed yet"

    # ---- one node, for the console ---------------------------------------------------------------

    def session(self, node: str) -> SessionView | None:
        """Returns None if it is away."""
        session = self._sessions.get(node)
        if session is None:
            return None
        keys, unsynced, guard = session.keys, session.keys.unsynced, session.keys.guard
        return SessionView(
            live=keys.live,
            not_synced=session.not_synced,
            pending=len(unsynced.pending),
            oldest=unsynced.oldest(),
            parked=unsynced.count(Parked),
            kept=unsynced.kept_count,
            unjudged=_unjudged(unsynced),
            in_flight=unsynced.count(KeyInFlight),
            backoff=unsynced.count(BackingOff),
            held=len(keys.held) if keys.live else int(session.hello.held),
            agent=session.hello.agent,
            guard=guard.why if guard is not None and guard.stops else "",
        )

    def parked(self, node: str) -> Iterator[Parked]:
        """The parked keys of a connected node."""
        session = self._sessions.get(node)
        states = (record.state for record in session.keys.unsynced.stopped.values()) if session is not None else ()
        return (state for state in states if isinstance(state, Parked))

    def queued(self, node: str) -> Mapping[int, int]:
        """Objects queued for it, by priority."""
        session = self._sessions.get(node)
        return session.keys.unsynced.queued_by_priority() if session is not None else {}

    def edge(self, node: str) -> message.EdgeStatus | None:
        """Its last report in this session."""
        return self._terms.node_status.edges.get(node)

    def outline(self, node: str) -> Mapping[str, Any]:
        """The status in its EdgeNode, without the long parts."""
        observed = self._cache.observed.get((EDGE_NODES, "", node))
        return observed.outline if observed is not None else {}

    def paused(self, node: str) -> str:
        """Why nothing is sent to it; empty if it is not paused."""
        return self._terms.controls.paused(node)

    def revoked(self, node: str) -> str:
        """Why its certificates are revoked; empty if they are not."""
        return self._terms.identities.revoked_in_use(node)

    def is_identity_held(self, node: str) -> bool:
        """Whether its certificate waits for a person's approval."""
        return node in self._terms.identities.held

    def unreadable_rules(self, node: str) -> str:
        """A sentence about unreadable SyncRules that concern it."""
        return deletion_blocked.unreadable_rules(self._placement, node) if self._rules.broken else ""

    def facts(self, node: str) -> edge_node.NodeFacts:
        """Everything its EdgeNode should say now."""
        return self._terms.node_status.of(node, self._sessions.get(node), self._terms.of(node))

    def refused_routes(self) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
        """EdgeRoutes that some nodes refuse: the name, the number of nodes, and the row of the first of them."""
        for name in sorted(self._rules.routes):
            outcomes = self._routes.of(name)
            if outcomes is not None and outcomes.refused:
                yield name, outcomes.refused, outcomes.first_refused(1)[0]

    # ---- sums, for metrics -----------------------------------------------------------------------

    def totals(self, now: float) -> HubTotals:
        unsynced = [session.keys.unsynced for session in self._sessions.values()]
        oldest = min((found for each in unsynced if (found := each.oldest()) is not None), default=now)
        kept = sum(each.kept_count for each in unsynced)
        behind = min(self._cache.behind_since.values(), default=now)
        identities, controls, listed = self._terms.identities, self._terms.controls, self._placement.listed
        objects = self._desired_state.object_cache
        return HubTotals(
            nodes=len(self._rules.nodes),
            connected=len(unsynced),
            comparing=sum(not session.keys.live for session in self._sessions.values()),
            to_return=self._terms.node_status.returning.waiting,
            objects=len(objects),
            objects_paused=len(objects.paused),
            queued=sum(each.count(Queued, BackingOff) for each in unsynced),
            in_flight=sum(each.count(KeyInFlight) for each in unsynced),
            pending=sum(len(each.pending) for each in unsynced),
            pending_oldest=max(0.0, now - oldest),
            parked=sum(each.count(Parked) for each in unsynced),
            kept=kept,
            withheld=sum(each.count(Withheld) for each in unsynced) - kept,
            status_lag=max(0.0, now - behind),
            unwritten=len(self._cache),
            refused_writes=len(self._cache.refusals),
            kinds_frozen=len(listed.frozen),
            versions_unserved=len(self._rules.unserved),
            nodes_paused=len(controls.pauses),
            nodes_guarded=controls.tripped(),
            away_waiting=self._sync_controller.away.waiting,
            identities_held=len(identities.held.keys() - identities.revoked.keys()),
            rate_waiting=self._rate.waiting if self._rate is not None else 0,
            rate_delays=self._rate.delays if self._rate is not None else 0,
            events_dropped=self._cloud_events.dropped,
            rules_unreadable={each: len(self._rules.broken_names(each)) for each in ("syncrules", "edgeroutes")},
            issuers=identities.issuers(self._sessions),
            authorities=self._certificates.trust_counts(),
        )

    # ---- rows, for people and the command line ---------------------------------------------------

    def nodes(self, now: float) -> list[dict[str, Any]]:
        """One row for each edge Node."""
        return [self._row(name, now) for name in sorted(self._rules.nodes)]

    def no_node(self, name: str) -> str:
        """Why there is no such node: its Node was deleted, or there never was one."""
        observed = self._cache.observed.get((EDGE_NODES, "", name))
        identity = observed.status.get("identity") if observed is not None else None
        if isinstance(identity, dict):
            return edge_node.deletion_text(name, identity)
        return api_group.no_edge_node(name, self.edge_nodes)

    def node(self, name: str, now: float) -> dict[str, Any] | None:
        """A node in detail; None if there is none of that name."""
        if name not in self._rules.nodes:
            return None
        row = self._row(name, now)
        session = self._sessions.get(name)
        row["grantedTopics"] = sorted(self._terms.grants.of(name))
        row["delivery"] = _delivery(self.facts(name).edge)
        if session is not None:
            unsynced = session.keys.unsynced
            row["pendingObjects"] = [
                {"key": key, "seconds": round(now - record.since, 3), "step": explain.step(at(session, key, now)).text}
                for key, record in itertools.islice(unsynced.pending.items(), LIST_MAX)
            ]
            row["parkedObjects"] = [
                {
                    "key": parked.key,
                    "code": parked.code,
                    "reason": parked.reason,
                    "retries": parked.retries,
                    "nextRetrySeconds": round(parked.next_retry_at - now, 1),
                }
                for parked in itertools.islice(unsynced.parked().values(), LIST_MAX)
            ]
            row["keptObjects"] = [
                {"key": key, "reason": withheld.why}
                for key, withheld in itertools.islice(unsynced.kept().items(), LIST_MAX)
            ]
        return row

    def _row(self, name: str, now: float) -> dict[str, Any]:
        session, facts = self.session(name), self.facts(name)
        oldest = session.oldest if session is not None else None
        return {
            "node": name,
            "connected": facts.connected,
            "lastContact": facts.last_contact,
            "agent": facts.agent,
            "wanted": len(self._desired_state.desired_objects(name)),
            "held": facts.held,
            "pending": session.pending if session is not None else 0,
            "lagSeconds": round(now - oldest, 3) if oldest is not None else 0,
            "inFlight": session.in_flight if session is not None else 0,
            "parked": facts.parked,
            "queued": facts.queued,
            "deadLetters": facts.dead_letters,
            "paused": facts.paused,
            "identity": (facts.identity or {}).get("state", ""),
            "obeyedFence": facts.obeyed_fence,
            "deletionGuard": edge_node.guard_status(facts.guard),
            "waitingFor": self._desired_state.not_synced(name),
            "kept": session.kept if session is not None else 0,
            "keptUnknown": session.unjudged[0] if session is not None else 0,
            "keptUnknownReason": session.unjudged[1] if session is not None else "",
            "rules": deletion_blocked.unreadable_rules(self._placement, name),
            "toTable": list(facts.to_table),
        }

    def stale(self, freshness: WatchHealth, now: float) -> dict[str, Any]:
        """What the hub is not following and cannot write at the moment, since when, and why."""
        text = self.clock.text
        oldest = self._cache.refusals.oldest()
        refused = {"since": text(oldest.since), "reason": oldest.reason} if oldest is not None else {}
        return {
            "stale": [
                {
                    "collection": one.collection,
                    "since": text(one.since),
                    "seconds": round(now - one.since, 1),
                    "reason": one.reason,
                }
                for one in freshness.all()
            ],
            "recordsRefused": {"count": len(self._cache.refusals), **refused},
        }

    def unreadable(self) -> list[dict[str, Any]]:
        """Unreadable SyncRules and EdgeRoutes, and their effect meanwhile."""
        return unreadable(self._placement)

    def troubled(self) -> list[dict[str, Any]]:
        """SyncRules and EdgeRoutes whose status, as it stands, says that not all of it works."""
        names = [("syncrules", "SyncRule", each) for each in sorted(self._rules.rule_names())]
        names += [("edgeroutes", "EdgeRoutes", each) for each in sorted(self._rules.routes)]
        found = []
        for collection, kind, name in names:
            observed = self._cache.observed.get((collection, "", name))
            row = sync_rule_status.trouble(kind, name, observed.status) if observed is not None else None
            found += [row] if row is not None else []
        return found

    # ---- where one object is ---------------------------------------------------------------------

    def explained(self, node: str, type: str, namespace: str, name: str, now: float) -> dict[str, Any]:
        """How far one object (``type`` as people call it) is on its way to a node; ``answer`` is for people."""
        found = self._explain_facts(node, type, namespace, name, now)
        step = explain.explain(found)
        answer: dict[str, Any] = {
            "node": node,
            "key": found.key or f"{type}//{name}",  # whether the kind has namespaces is unknown
            "code": step.code,
            "answer": step.text,
        }
        live, session = found.live, self._sessions.get(node)
        held = session.keys.held.get(found.key) if session is not None and found.key is not None else None
        if live is not None:
            answer["wanted"] = {"uid": live.uid, "resourceVersion": live.version, "digest": live.digest}
        if held is not None and found.key is not None:
            # As in ObjectSync: with equal content the version is the wanted one.
            is_same = live is not None and live.content_id == held.content_id
            version = live.version if live is not None and is_same else held.version
            answer["held"] = {"uid": held.uid, "resourceVersion": version, "digest": held.digest}
            record = self._sync_controller.object_syncs.last_record(node, found.key.split("/", 2)[1], held.uid)
            if record is not None and record.last_ack_time:
                answer["lastDelivered"] = record.last_ack_time
        return answer

    def _explain_facts(self, node: str, type: str, namespace: str, name: str, now: float) -> explain.ExplainFacts:
        desired_state, rules = self._desired_state, self._rules
        key = self._key(node, type, namespace, name)
        live = desired_state.object_cache.get(key) if key is not None else None
        kind = desired_state.kinds.get(key.partition("/")[0]) if key is not None else None
        session = self._sessions.get(node)
        return explain.ExplainFacts(
            node=node,
            is_node=node in rules.nodes,
            nodes=self.edge_nodes,
            naming=[rule.name for rule, _ in rules.entries(kind.group_kind)] if kind is not None else (),
            type=type,
            key=key,
            kind=kind.kind if kind is not None else "",
            live=live,
            is_desired=live is not None and desired_state.desired(node, live.key) is not None,
            not_synced=desired_state.not_synced(node),
            unlistable=self._unlistable(type, kind if key is not None else None, is_known=key is not None),
            is_named=kind is None or kind.group_kind == EDGE_ROUTES or kind.group_kind in rules.kinds(),
            named_kinds=[each.kind for each in desired_state.kinds.values()],
            namesakes=self._namesakes(kind) if live is None and kind is not None else (),
            rules=self._rule_notes(kind),
            routes_broken=rules.broken.get(f"edgeroutes/{name}"),
            delivery=at(session, key, now) if session is not None and key is not None else None,
            last_contact=self.facts(node).last_contact if session is None else "",
            identity_held=self.is_identity_held(node),
            revoked=self.revoked(node),
            paused=self.paused(node),
            routes=self._routes_said(node, live),
            behind=self._behind(node, live) if session is None else None,
        )

    def _behind(self, node: str, live: LiveObject | None) -> str | None:
        """The version a node holds according to an ObjectSync in state Behind."""
        syncs = self._sync_controller.object_syncs
        said = syncs.last_record(node, live.resource.namespace, live.uid) if live is not None else None
        return said.version if said is not None and said.state == "Behind" else None

    def _unlistable(self, type: str, kind: ServedKind | None, *, is_known: bool) -> str:
        """Why the kind cannot be listed; if no kind has this name, the reason is searched by the name."""
        frozen = self._placement.listed.frozen
        if kind is not None:
            why = frozen.get(kind.group_kind)
            return f"{kind.kind} cannot be listed: {why}" if why is not None else ""
        if is_known:
            return ""
        for (_, called), why in frozen.items():
            if deletion_blocked.is_called(f"{called.lower()}s", type.lower()):
                return f"{called} cannot be listed: {why}"
        for (version, called), why in self._rules.unserved.items():
            if deletion_blocked.is_called(f"{called.lower()}s", type.lower()):
                return f"{version} {called} cannot be listed: {why}"
        return ""

    def _namesakes(self, kind: ServedKind) -> tuple[tuple[str, str], ...]:
        """(namespace, name) of every object of the kind."""
        objects = self._desired_state.object_cache.of_kind(kind.group_kind).values()
        return tuple((each.resource.namespace, each.resource.name) for each in objects)

    def _rule_notes(self, kind: ServedKind | None) -> tuple[str, ...]:
        """Rules that name the kind at a version that is not served, and unreadable rules."""
        rules = self._rules
        unserved = [
            f"SyncRule {rule.name} names {entry.api_version} {entry.kind}, which is not served"
            for rule, entry in (rules.named(kind.group_kind) if kind is not None else ())
            if not rules.in_force(entry)
        ]
        broken = [
            f"SyncRule {name} cannot be read: {rules.broken[f'syncrules/{name}']}"
            for name in rules.broken_names("syncrules")
        ]
        return (*unserved, *broken)

    def _routes_said(self, node: str, live: LiveObject | None) -> explain.RoutesSaid | None:
        """The node's result for an EdgeRoutes object; None if it is not one."""
        if live is None or live.group_kind != EDGE_ROUTES:
            return None
        edge = self.edge(node)
        said = edge.routes.get(live.resource.name) if edge is not None else None
        if said is None or said.uid != live.uid or said.digest not in ("", live.digest):
            return explain.RoutesSaid(is_known=False)
        errors = tuple((each.route, each.message) for each in said.errors)
        return explain.RoutesSaid(is_known=True, accepted=tuple(said.accepted), errors=errors)

    def _key(self, node: str, type: str, namespace: str, name: str) -> str | None:
        for known, kind in self._desired_state.kinds.items():
            if kind.is_called(type):
                return f"{known}/{namespace if kind.namespaced else ''}/{name}"
        # No rule names the kind any more, but the node may still hold it.
        session = self._sessions.get(node)
        for key in session.keys.held if session is not None else ():
            plural, held_namespace, held_name = key.split("/", 2)
            is_it = held_name == name and held_namespace in (namespace, "")
            if is_it and deletion_blocked.is_called(plural, type.lower()):
                return key
        return None


def at(session: NodeSession, key: str, now: float) -> explain.InTransit:
    """How far a key is on its way to this node."""
    keys = session.keys
    record, guard = keys.unsynced.get(key), keys.guard
    return explain.InTransit(
        not_synced=session.not_synced,
        is_compared=keys.live,
        is_held=key in keys.held,
        state=keys.state_of(key),
        seconds=now - record.since if record is not None else 0.0,
        guard=guard.why if guard is not None and guard.stops else "",
        now=now,
    )


def unreadable(placement: Placement) -> list[dict[str, Any]]:
    """Unreadable SyncRules and EdgeRoutes, and their effect meanwhile."""
    rules = placement.rules
    rows = [("SyncRule", n, f"syncrules/{n}", deletion_blocked.consequence(placement, n))
            for n in rules.broken_names("syncrules")]  # fmt: skip
    rows += [("EdgeRoutes", n, f"edgeroutes/{n}", deletion_blocked.ROUTES_CONSEQUENCE)
             for n in rules.broken_names("edgeroutes")]  # fmt: skip
    return [
        {
            "kind": kind,
            "name": name,
            "reason": rules.broken[key],
            "consequence": consequence,
            "nodes": len(rules.unreadable_at(name)) if kind == "SyncRule" else 0,
        }
        for kind, name, key, consequence in rows
    ]


def _delivery(edge: message.EdgeStatus | None) -> dict[str, str]:
    """Retry policies of the node's messages, as it reports them."""
    said = {} if edge is None else edge.delivery
    return {name: said[name][: message.NAME_CHARS_MAX] for name in DELIVERIES if name in said}


def _unjudged(unsynced: UnsyncedKeys) -> tuple[int, str]:
    """What is kept because a kind cannot be listed or a rule is unreadable."""
    if not unsynced.kept_count:
        return 0, ""
    whys = [each.why for each in unsynced.kept().values() if each.cause is Cause.DELETION_BLOCKED]
    return len(whys), whys[0] if whys else ""
