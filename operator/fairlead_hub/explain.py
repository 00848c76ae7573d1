"""For people and the command line: where every node stands, and why an object is at a node or not."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.content import EDGE_ROUTES, LiveObject
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.delivery import key_state
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.identities import APPROVE
from fairlead_hub.delivery.key_state import Cause, Withheld
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.hub import Hub
from fairlead_hub.status import edge_node

LIST_MAX = 100
"""Pending and parked keys listed for one node."""
NOTES_MAX = 5
"""Reasons given in one sentence."""
SIMILAR_OF_MAX = 10_000
"""Names looked through for one that was meant."""
Code = Literal[
    "no_node",
    "no_object",
    "not_watched",
    "not_listed",
    "not_selected",
    "unreadable",
    "away",
    "identity_held",
    "waiting",
    "comparing",
    "queued",
    "in_flight",
    "parked",
    "paused",
    "withheld",
    "deletion_guard",
    "kept",
    "held",
    "refused",
    "not_wanted",
]


class Step(NamedTuple):
    """Where an object is on its way to a node, or why it has not begun: ``code`` for programs, ``text`` for people."""

    code: Code
    text: str


def nodes(hub: Hub, now: float) -> list[dict[str, Any]]:
    """One row for each edge Node."""
    return [_row(hub, name, now) for name in sorted(hub.placement.rules.nodes)]


def doubts(hub: Hub, freshness: WatchHealth, now: float) -> dict[str, Any]:
    """What the hub does not see, and what it may not write, at the moment; since when, and why."""
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
    if session is not None:
        unsynced = session.unsynced
        row["pendingObjects"] = [
            {"key": key, "seconds": round(now - record.since, 3), "step": step(session, key, now).text}
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
        "inFlight": session.unsynced.count(key_state.InFlight) if session is not None else 0,
        "parked": facts.parked,
        "paused": facts.paused,
        "deletionGuard": edge_node.guard_status(facts.guard),
        "waitingFor": hub.desired_state.not_synced(name),
        "kept": session.unsynced.kept_count if session is not None else 0,
        "rules": deletion_blocked.told(hub.placement, name),
    }


def explain(hub: Hub, name: str, type: str, namespace: str, object_name: str, now: float) -> dict[str, Any]:
    """The steps of one object on its way to one node, in order; ``answer`` is the sentence for people."""
    key = _key(hub, name, type, namespace, object_name)
    live = hub.object_cache.get(key) if key is not None else None
    session = hub.sessions.get(name)
    held = session.held.get(key) if session is not None and key is not None else None
    answer = _answer(hub, name, type, key, live, now)
    found: dict[str, Any] = {
        "node": name,
        "key": key or f"{type}/{namespace}/{object_name}",
        "code": answer.code,
        "answer": answer.text,
    }
    if live is not None:
        found["wanted"] = {"uid": live.uid, "resourceVersion": live.version, "digest": live.digest}
    if held is not None:
        found["held"] = {"uid": held.uid, "resourceVersion": held.version, "digest": held.digest}
    return found


def _answer(hub: Hub, node: str, type: str, key: str | None, live: LiveObject | None, now: float) -> Step:
    if node not in hub.placement.rules.nodes:
        return Step("no_node", f"there is no edge Node {node}")
    waiting = hub.desired_state.not_synced(node)
    if key is None:
        return _unwatched(hub, type, waiting)
    session = hub.sessions.get(node)
    held = session is not None and key in session.held
    if live is None and not held:
        return _nowhere(hub, key, waiting)
    wanted = live is not None and hub.desired_state.desired(node, key) is not None
    if not wanted and not held and not waiting and (session is None or session.live):
        return _unselected(hub, node, key, away=session is None)
    if session is None:
        last = hub.node_facts(node).last_contact or "never"
        if node in hub.identities.held:
            why = "its certificate is from before its Node was made again"
            return Step("identity_held", f"{why}: {APPROVE} approves it")
        paused = hub.node_controls.paused(node)
        back = f"; when it is back, nothing is sent while it is paused: {paused}" if paused else ""
        would = "it should hold this" if wanted else waiting
        if wanted and live is not None and live.problem is not None:
            would += f", and cannot be given it ({live.problem.code}: {live.problem.reason})"
        return Step("away", f"the node is away (last contact: {last}); {would}{back}")
    at = step(session, key, now)
    if at.code == "held" and live is not None and live.group_kind == EDGE_ROUTES:
        return _routes_held(hub, node, live)
    return at


def _unwatched(hub: Hub, type: str, waiting: str) -> Step:
    for (_, kind), why in hub.placement.listed.frozen.items():
        if deletion_blocked.is_called(f"{kind.lower()}s", type.lower()):
            return Step("not_listed", f"{kind} cannot be listed: {why}")
    for (version, kind), why in hub.placement.rules.unserved.items():
        if deletion_blocked.is_called(f"{kind.lower()}s", type.lower()):
            return Step("not_listed", f"{version} {kind} cannot be listed: {why}")
    return Step("not_watched", waiting or f"no SyncRule names the kind {type}, so it is not even watched")


def _nowhere(hub: Hub, key: str, waiting: str) -> Step:
    """Not in the cluster: misspelled, or in another namespace?"""
    type, namespace, name = key.split("/", 2)
    kind = hub.desired_state.kinds.get(type)
    if waiting:
        return Step("no_object", waiting)
    if kind is not None and (why := hub.placement.listed.frozen.get(kind.group_kind)) is not None:
        return Step("not_listed", f"{kind.kind} cannot be listed: {why}")
    others = hub.object_cache.of_kind(kind.group_kind).values() if kind is not None else ()
    found = [(each.resource.namespace, each.resource.name) for each in others]
    return Step("no_object", nowhere(kind.kind if kind is not None else type, namespace, name, found))


def nowhere(kind: str, namespace: str, name: str, others: Iterable[tuple[str, str]]) -> str:
    """For people: there is no such object, and what they may have meant of ``others`` (namespace, name)."""
    place = f" in namespace {namespace}" if namespace else ""
    text = f"there is no {kind} {name}{place}"
    others = list(others)
    elsewhere = sorted(other for other, same in others if same == name and other != namespace)
    if elsewhere:
        more = f" ({len(elsewhere)} namespaces have one)" if len(elsewhere) > 1 else ""
        return f"{text}; there is one in namespace {elsewhere[0]}: use -n {elsewhere[0]}{more}"
    names = sorted({other for place, other in others if place == namespace})
    similar = difflib.get_close_matches(name, names[:SIMILAR_OF_MAX], n=1)
    return f"{text}; did you mean {similar[0]}?" if similar else text


def _unselected(hub: Hub, node: str, key: str, *, away: bool) -> Step:
    type, _, name = key.split("/", 2)
    back = "; the node is away" if away else ""
    if type == deletion_blocked.EDGE_ROUTES_TYPE:
        why = hub.placement.rules.broken.get(f"edgeroutes/{name}")
        if why is not None:
            return Step("unreadable", f"EdgeRoutes {name} cannot be read: {why}; {deletion_blocked.ROUTES_CONSEQUENCE}")
        why = "is not for this node: its nodeSelector does not select it"
        return Step("not_selected", f"EdgeRoutes {name} {why}{back}")
    kind = hub.desired_state.kinds.get(type)
    notes = [
        f"SyncRule {rule.name} names {entry.api_version} {entry.kind}, which is not served"
        for rule, entry in (hub.placement.rules.named(kind.group_kind) if kind is not None else ())
        if not hub.placement.rules.in_force(entry)
    ]
    notes += [f"SyncRule {rule} cannot be read: {hub.placement.rules.broken[f'syncrules/{rule}']}"
              for rule in hub.placement.rules.broken_names("syncrules")]  # fmt: skip
    return Step("not_selected", "; ".join(["no SyncRule selects this object for this node", *notes[:NOTES_MAX]]) + back)


def _routes_held(hub: Hub, node: str, live: LiveObject) -> Step:
    """On the node's disk is not in force: what the node made of it counts."""
    edge = hub.node_status.edges.get(node)
    said = edge.routes.get(live.resource.name) if edge is not None else None
    if said is None or said.uid != live.uid or said.digest not in ("", live.digest):
        return Step("held", "held; the node has not told yet which of its routes it runs")
    errors = [(each.route, each.message) for each in said.errors]
    return routes_held(said.accepted, errors)


def routes_held(accepted: Sequence[str], errors: Sequence[tuple[str, str]]) -> Step:
    """Which routes of an object run at a node that holds it, and which (name, why) do not."""
    runs = f"routes in force: {', '.join(sorted(accepted)[:LIST_MAX]) or 'none'}"
    if not errors:
        return Step("held", f"held; {runs}")
    told = "; ".join(f"{route or 'manifest'}: {text}" for route, text in errors[:NOTES_MAX])
    return Step("refused", f"the node holds it and refuses {len(errors)}: {told}; {runs}")


def step(session: NodeSession, key: str, now: float) -> Step:
    """At which step of the path to this node a key is."""
    if waiting := session.not_synced:
        return Step("waiting", f"waiting: {waiting}")
    if not session.live:
        return Step("comparing", "the node's store is being compared")
    record = session.unsynced.get(key)
    if record is None:
        return Step("held", "held") if key in session.held else Step("not_wanted", "not wanted")
    return _unsynced(session, session.state_of(key), now - record.since, now)


def _unsynced(session: NodeSession, state: key_state.State, seconds: float, now: float) -> Step:
    match state:
        case key_state.InFlight():
            return Step("in_flight", f"in flight, unacknowledged since {seconds:.1f} s")
        case key_state.Backoff(due=due, retry=retry):
            return Step("waiting", f"waiting {max(0.0, due - now):.1f} s for retry {retry}")
        case Parked() as parked:
            why = f"parked after {parked.retries} retries ({parked.code}: {parked.reason})"
            return Step("parked", f"{why}; tried again in {parked.next_retry_at - now:.0f} s")
        case Withheld(cause=Cause.PAUSE, why=why):
            told = f"paused, waiting since {seconds:.1f} s: {why} (annotation fairlead.dev/paused on its EdgeNode)"
            return Step("paused", told)
        case Withheld(cause=Cause.NOT_GRANTED, why=why):
            return Step("withheld", f"withheld: {why}")
        case Withheld(cause=Cause.DELETION_GUARD, why=why):
            guard = session.deliveries.guard
            return Step("deletion_guard", guard.why if guard is not None and guard.stops else why)
        case Withheld(why=why):
            return Step("kept", f"kept, not deleted yet: {why}")
    return Step("queued", "queued")


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
