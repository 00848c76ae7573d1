"""For people and the command line: where every node stands, as rows, and the facts from which ``explain`` judges.

Hub ─nodes, node, stale, unreadable─▶ rows of /v1/nodes
    ─facts─▶ explain.ExplainFacts ─explain─▶ Step ─▶ the answer of /v1/explain
"""

from __future__ import annotations

import itertools
from typing import Any

from fairlead_hub import explain
from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.content import EDGE_ROUTES, LiveObject, ServedKind
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.delivery.keys import key_state
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.hub import Hub
from fairlead_hub.status import edge_node
from fairlead_wire import message

DELIVERIES = ("upstream", "brokered")
LIST_MAX = 100
"""Pending and parked keys listed for one node."""


def nodes(hub: Hub, now: float) -> list[dict[str, Any]]:
    """One row for each edge Node."""
    return [_row(hub, name, now) for name in sorted(hub.placement.rules.nodes)]


def stale(hub: Hub, freshness: WatchHealth, now: float) -> dict[str, Any]:
    """What the hub does not follow, and what it may not write, at the moment; since when, and why."""
    text = hub.clock.text
    oldest = hub.status_cache.refusals.oldest()
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
        "recordsRefused": {"count": len(hub.status_cache.refusals), **refused},
    }


def node(hub: Hub, name: str, now: float) -> dict[str, Any] | None:
    """A node in detail; None when there is none of that name."""
    if name not in hub.placement.rules.nodes:
        return None
    row = _row(hub, name, now)
    session = hub.sessions.get(name)
    row["grantedTopics"] = sorted(hub.grants.of(name))
    row["delivery"] = _delivery(hub.node_facts(name).edge)
    if session is not None:
        unsynced = session.unsynced
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


def _delivery(edge: message.EdgeStatus | None) -> dict[str, str]:
    """By which policies the node's messages go again, in its own words."""
    said = {} if edge is None else edge.delivery
    return {name: said[name][: message.NAME_CHARS_MAX] for name in DELIVERIES if name in said}


def unreadable(placement: Placement) -> list[dict[str, Any]]:
    """SyncRules and EdgeRoutes that cannot be read, and what that means meanwhile."""
    rows = [("SyncRule", n, f"syncrules/{n}", deletion_blocked.consequence(placement, n))
            for n in placement.rules.broken_names("syncrules")]  # fmt: skip
    rows += [("EdgeRoutes", n, f"edgeroutes/{n}", deletion_blocked.ROUTES_CONSEQUENCE)
             for n in placement.rules.broken_names("edgeroutes")]  # fmt: skip
    return [
        {
            "kind": kind,
            "name": name,
            "reason": placement.rules.broken[key],
            "consequence": consequence,
            "nodes": len(placement.rules.unreadable_at(name)) if kind == "SyncRule" else 0,
        }
        for kind, name, key, consequence in rows
    ]


def _row(hub: Hub, name: str, now: float) -> dict[str, Any]:
    session = hub.sessions.get(name)
    facts = hub.node_facts(name)
    oldest = session.unsynced.oldest() if session is not None else None
    return {
        "node": name,
        "connected": facts.connected,
        "lastContact": facts.last_contact,
        "agent": facts.agent,
        "wanted": len(hub.desired_state.desired_objects(name)),
        "held": facts.held,
        "pending": len(session.unsynced.pending) if session is not None else 0,
        "lagSeconds": round(now - oldest, 3) if oldest is not None else 0,
        "inFlight": session.unsynced.count(key_state.KeyInFlight) if session is not None else 0,
        "parked": facts.parked,
        "queued": facts.queued,
        "deadLetters": facts.dead_letters,
        "paused": facts.paused,
        "identity": (facts.identity or {}).get("state", ""),
        "obeyedFence": facts.obeyed_fence,
        "deletionGuard": edge_node.guard_status(facts.guard),
        "waitingFor": hub.desired_state.not_synced(name),
        "kept": session.unsynced.kept_count if session is not None else 0,
        "rules": deletion_blocked.unreadable_rules(hub.placement, name),
        "toTable": list(facts.to_table),
    }


def at(session: NodeSession, key: str, now: float) -> explain.InTransit:
    """Where a key is on its way to this node."""
    record, guard = session.unsynced.get(key), session.deliveries.guard
    return explain.InTransit(
        not_synced=session.not_synced,
        is_compared=session.live,
        is_held=key in session.held,
        state=session.state_of(key),
        seconds=now - record.since if record is not None else 0.0,
        guard=guard.why if guard is not None and guard.stops else "",
        now=now,
    )


def explained(hub: Hub, name: str, type: str, namespace: str, object_name: str, now: float) -> dict[str, Any]:
    """The step of one object on its way to one node; ``answer`` is the sentence for people."""
    found = facts(hub, name, type, namespace, object_name, now)
    step = explain.explain(found)
    answer: dict[str, Any] = {
        "node": name,
        "key": found.key or f"{type}/{namespace}/{object_name}",
        "code": step.code,
        "answer": step.text,
    }
    live, session = found.live, hub.sessions.get(name)
    held = session.held.get(found.key) if session is not None and found.key is not None else None
    if live is not None:
        answer["wanted"] = {"uid": live.uid, "resourceVersion": live.version, "digest": live.digest}
    if held is not None:
        # As in ObjectSync: of the same content the version is the one that is wanted.
        is_same = live is not None and live.content_id == held.content_id
        version = live.version if live is not None and is_same else held.version
        answer["held"] = {"uid": held.uid, "resourceVersion": version, "digest": held.digest}
        record = hub.object_syncs.said(name, found.key.split("/", 2)[1], held.uid) if found.key is not None else None
        if record is not None and record.last_ack_time:
            answer["lastDelivered"] = record.last_ack_time
    return answer


def facts(hub: Hub, node: str, type: str, namespace: str, name: str, now: float) -> explain.ExplainFacts:
    """All that is known of one object (``type`` as people call it) and one node."""
    key = _key(hub, node, type, namespace, name)
    live = hub.object_cache.get(key) if key is not None else None
    kind = hub.desired_state.kinds.get(key.partition("/")[0]) if key is not None else None
    session = hub.sessions.get(node)
    return explain.ExplainFacts(
        node=node,
        is_node=node in hub.placement.rules.nodes,
        type=type,
        key=key,
        kind=kind.kind if kind is not None else "",
        live=live,
        is_desired=live is not None and hub.desired_state.desired(node, live.key) is not None,
        not_synced=hub.desired_state.not_synced(node),
        unlistable=_unlistable(hub.placement, type, kind if key is not None else None, is_known=key is not None),
        is_named=kind is None or kind.group_kind == EDGE_ROUTES or kind.group_kind in hub.placement.rules.kinds(),
        namesakes=_namesakes(hub, kind) if live is None and kind is not None else (),
        rules=_rule_notes(hub.placement, kind),
        routes_broken=hub.placement.rules.broken.get(f"edgeroutes/{name}"),
        delivery=at(session, key, now) if session is not None and key is not None else None,
        last_contact=hub.node_facts(node).last_contact if session is None else "",
        identity_held=node in hub.identities.held,
        revoked=hub.identities.revoked_in_use(node),
        paused=hub.node_controls.paused(node),
        routes=_routes_said(hub, node, live),
        behind=_behind(hub, node, live) if session is None else None,
    )


def _behind(hub: Hub, node: str, live: LiveObject | None) -> str | None:
    """The version that ObjectSync says a node holds, where it says Behind."""
    said = hub.object_syncs.said(node, live.resource.namespace, live.uid) if live is not None else None
    return said.version if said is not None and said.state == "Behind" else None


def _unlistable(placement: Placement, type: str, kind: ServedKind | None, *, is_known: bool) -> str:
    """Why the kind cannot be listed; where no kind is known by this name, as far as the name says."""
    if kind is not None:
        why = placement.listed.frozen.get(kind.group_kind)
        return f"{kind.kind} cannot be listed: {why}" if why is not None else ""
    if is_known:
        return ""
    for (_, called), why in placement.listed.frozen.items():
        if deletion_blocked.is_called(f"{called.lower()}s", type.lower()):
            return f"{called} cannot be listed: {why}"
    for (version, called), why in placement.rules.unserved.items():
        if deletion_blocked.is_called(f"{called.lower()}s", type.lower()):
            return f"{version} {called} cannot be listed: {why}"
    return ""


def _namesakes(hub: Hub, kind: ServedKind) -> tuple[tuple[str, str], ...]:
    """(namespace, name) of every object of the kind."""
    return tuple(
        (each.resource.namespace, each.resource.name) for each in hub.object_cache.of_kind(kind.group_kind).values()
    )


def _rule_notes(placement: Placement, kind: ServedKind | None) -> tuple[str, ...]:
    """Which rules name the kind at a version that is not served, and which cannot be read."""
    rules = placement.rules
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


def _routes_said(hub: Hub, node: str, live: LiveObject | None) -> explain.RoutesSaid | None:
    """What the node made of an EdgeRoutes object; None: it is none."""
    if live is None or live.group_kind != EDGE_ROUTES:
        return None
    edge = hub.node_status.edges.get(node)
    said = edge.routes.get(live.resource.name) if edge is not None else None
    if said is None or said.uid != live.uid or said.digest not in ("", live.digest):
        return explain.RoutesSaid(is_known=False)
    errors = tuple((each.route, each.message) for each in said.errors)
    return explain.RoutesSaid(is_known=True, accepted=tuple(said.accepted), errors=errors)


def _key(hub: Hub, node: str, type: str, namespace: str, name: str) -> str | None:
    for known, kind in hub.desired_state.kinds.items():
        if kind.is_called(type):
            return f"{known}/{namespace if kind.namespaced else ''}/{name}"
    # No rule names the kind any more, but the node may hold it still.
    session = hub.sessions.get(node)
    for key in session.held if session is not None else ():
        plural, held_namespace, held_name = key.split("/", 2)
        if held_name == name and held_namespace in (namespace, "") and deletion_blocked.is_called(plural, type.lower()):
            return key
    return None
