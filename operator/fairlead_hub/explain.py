"""For people and the command line: where every node stands, and why an object is at a node or not."""

from __future__ import annotations

from typing import Any

from fairlead_hub import edge_node
from fairlead_hub.content import LiveObject
from fairlead_hub.freshness import Freshness
from fairlead_hub.hub import Hub
from fairlead_hub.node_session import NodeSession

LIST_MAX = 100
"""Pending and parked keys listed for one node."""
_CODES = (
    ("in flight", "in_flight"),
    ("held back", "held_back"),
    ("the node's store", "comparing"),
    ("not wanted", "not_wanted"),
)
"""For programs, where the first word of a step's sentence would say nothing."""


def nodes(hub: Hub, now: float) -> list[dict[str, Any]]:
    """One row for each edge Node."""
    return [_row(hub, name, now) for name in sorted(hub.placement.nodes)]


def doubts(hub: Hub, freshness: Freshness, now: float) -> dict[str, Any]:
    """What the hub does not see, and what it may not write, at the moment; since when, and why."""
    text = hub.records.text
    oldest = hub.book.refusals.oldest()
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
        "recordsRefused": {"count": len(hub.book.refusals), **refused},
    }


def node(hub: Hub, name: str, now: float) -> dict[str, Any] | None:
    """A node in detail; None when there is none of that name."""
    if name not in hub.placement.nodes:
        return None
    row = _row(hub, name, now)
    session = hub.sessions.get(name)
    row["grantedTopics"] = sorted(hub.grants.of(name))
    if session is not None:
        row["pendingObjects"] = [
            {"key": key, "seconds": round(now - since, 3), "step": step(session, key, now)}
            for key, since in list(session.pending_since.items())[:LIST_MAX]
        ]
        row["parkedObjects"] = [
            {
                "key": parked.key,
                "code": parked.code,
                "reason": parked.reason,
                "retries": parked.retries,
                "nextRetrySeconds": round(parked.next_retry_at - now, 1),
            }
            for parked in list(session.parked.values())[:LIST_MAX]
        ]
        row["keptObjects"] = [{"key": key, "reason": why} for key, why in list(session.frozen.items())[:LIST_MAX]]
    return row


def _row(hub: Hub, name: str, now: float) -> dict[str, Any]:
    session = hub.sessions.get(name)
    account = hub.accounts.of(name)
    oldest = next(iter(session.pending_since.values()), None) if session is not None else None
    return {
        "node": name,
        "connected": account.connected,
        "lastContact": account.last_contact,
        "agent": account.agent,
        "wanted": len(hub.view.wanted(name)),
        "held": account.held,
        "pending": len(session.pending_since) if session is not None else 0,
        "lagSeconds": round(now - oldest, 3) if oldest is not None else 0,
        "inFlight": len(session.flights) if session is not None else 0,
        "parked": account.parked,
        "hold": account.hold,
        "brake": edge_node.brake_status(account.brake),
        "waitingFor": hub.view.waiting_for(name),
    }


def explain(hub: Hub, name: str, type: str, namespace: str, object_name: str, now: float) -> dict[str, Any]:
    """The steps of one object on its way to one node, in order; ``answer`` is the sentence for people."""
    key = _key(hub, name, type, namespace, object_name)
    live = hub.catalog.get(key) if key is not None else None
    session = hub.sessions.get(name)
    held = session.held.get(key) if session is not None and key is not None else None
    code, answer = _verdict(hub, name, type, key, live, now)
    found: dict[str, Any] = {
        "node": name,
        "key": key or f"{type}/{namespace}/{object_name}",
        "code": code,
        "answer": answer,
    }
    if live is not None:
        found["wanted"] = {"uid": live.uid, "resourceVersion": live.version, "digest": live.digest}
    if held is not None:
        found["held"] = {"uid": held.uid, "resourceVersion": held.version, "digest": held.digest}
    return found


def _verdict(hub: Hub, node: str, type: str, key: str | None, live: LiveObject | None, now: float) -> tuple[str, str]:
    if node not in hub.placement.nodes:
        return "no_node", f"there is no edge Node {node}"
    waiting = hub.view.waiting_for(node)
    if key is None:
        for (_, kind), why in hub.placement.frozen.items():
            if _is_called(f"{kind.lower()}s", type.lower()):
                return "not_listed", f"{kind} cannot be listed: {why}"
        return "not_watched", waiting or f"no SyncRule names the kind {type}, so it is not even watched"
    session = hub.sessions.get(node)
    wanted = live is not None and hub.view.wish(node, key) is not None
    if session is None:
        last = hub.accounts.of(node).last_contact or "never"
        would = "it should hold this" if wanted else "it should not hold this"
        hold = hub.restraints.hold(node)
        back = f"; when it is back, nothing is sent while it is on hold: {hold}" if hold else ""
        return "away", f"the node is away (last contact: {last}); {would}{back}"
    if live is None and key not in session.held:
        return "no_object", waiting or "there is no such object in the cluster, and the node holds none"
    if not wanted and key not in session.held:
        return "not_selected", "no SyncRule selects this object for this node"
    at = step(session, key, now)
    return next((code for begins, code in _CODES if at.startswith(begins)), at.split(" ")[0].rstrip(",:")), at


def step(session: NodeSession, key: str, now: float) -> str:
    """At which step of the path to this node a key is."""
    if waiting := session.waiting_for:
        return f"waiting: {waiting}"
    if not session.live:
        return "the node's store is being compared"
    parked = session.parked.get(key)
    if parked is not None:
        again = parked.next_retry_at - now
        return f"parked after {parked.retries} retries ({parked.code}: {parked.reason}); tried again in {again:.0f} s"
    if session.hold and key in session.pending_since and key not in session.flights:
        waiting_seconds = now - session.pending_since[key]
        return f"held back since {waiting_seconds:.1f} s: {session.hold} (annotation fairlead.dev/hold on its EdgeNode)"
    if key in session.flights:
        return f"in flight, unacknowledged since {now - session.pending_since.get(key, now):.1f} s"
    due = session.queue.due_at(key)
    if due is not None:
        return f"waiting {max(0.0, due - now):.1f} s for retry {max(1, session.patience.retries(key))}"
    if session.queue.is_queued(key):
        return "queued"
    if session.brake is not None and session.brake.stops and key in session.brake.due:
        return session.brake.why
    if key in session.frozen:
        return f"kept, not deleted yet: {session.frozen[key]}"
    return "held" if key in session.held else "not wanted"


def _key(hub: Hub, node: str, type: str, namespace: str, name: str) -> str | None:
    for known, kind in hub.records.kinds.items():
        if kind.is_called(type):
            return f"{known}/{namespace if kind.namespaced else ''}/{name}"
    # No rule names the kind any more, but the node may hold it still.
    session = hub.sessions.get(node)
    for key in session.held if session is not None else ():
        plural, held_namespace, held_name = key.split("/", 2)
        if held_name == name and held_namespace in (namespace, "") and _is_called(plural, type.lower()):
            return key
    return None


def _is_called(plural: str, asked: str) -> bool:
    """Without discovery: ``tills.shop.io`` is called till, tills and tills.shop.io."""
    short = plural.partition(".")[0]
    return asked in (plural, short, short.removesuffix("s"), short.removesuffix("es"), f"{short[:-3]}y")
