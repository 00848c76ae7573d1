"""One node as one row of the console, from the core's own indexes: nothing that grows with its objects is counted."""

from __future__ import annotations

from typing import NamedTuple

from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.hub import Hub
from fairlead_wire.event import short

STATES = {
    "sync": "In sync",
    "behind": "Catching up",
    "parked": "Parked",
    "waiting": "Waiting",
    "paused": "Paused",
    "stopped": "Deletions stopped",
    "refused": "Refused",
    "away": "Away",
    "never": "Never seen",
}
"""What a node may be in, and what people call it; the first that is true of ``refused``, ``away`` … is taken."""
NEEDS_ATTENTION = ("refused", "stopped", "parked")
"""These do not end by themselves, or not soon."""


class NodeLine(NamedTuple):
    """A row.  Nothing in it changes while nothing happens: times are moments; ages are made where they are shown."""

    name: str
    state: str
    since: int
    """Seconds since 1970: when its oldest object began to wait, or when it was last heard of; 0: neither."""
    pending: int
    parked: int
    held: int
    agent: str
    note: str
    """Why it waits, in a sentence; empty where there is nothing to say."""
    dead_letters: int = 0
    """Messages it could not deliver and keeps, as it reported last."""


def of(hub: Hub, name: str) -> NodeLine:
    """As it is now."""
    session = hub.sessions.get(name)
    return _away(hub, name) if session is None else _connected(hub, name, session)


def _connected(hub: Hub, name: str, session: NodeSession) -> NodeLine:
    unsynced, guard = session.unsynced, session.deliveries.guard
    parked, pending, oldest = unsynced.count(Parked), len(unsynced.pending), unsynced.oldest()
    state, note = "sync", ""
    if guard is not None and guard.stops:
        state, note = "stopped", guard.why
    elif paused := hub.node_controls.paused(name):
        state, note = "paused", paused
    elif parked:
        state = "parked"
    elif not session.live:
        state, note = "waiting", session.not_synced or "what it holds is being compared"
    elif pending:
        state = "behind"
    return NodeLine(
        name=name,
        state=state,
        since=int(hub.clock.seconds(oldest)) if oldest is not None else 0,
        pending=pending,
        parked=parked,
        held=len(session.held) if session.live else int(session.hello.held),
        agent=session.hello.agent[:80],
        note=short(note or _unreadable(hub, name)),
        dead_letters=edge.dead_letters if (edge := hub.node_status.edges.get(name)) is not None else 0,
    )


def _away(hub: Hub, name: str) -> NodeLine:
    observed = hub.status_cache.observed.get((EDGE_NODES, "", name))
    said = observed.outline if observed is not None else {}
    last = str(said.get("lastContactTime") or "")
    state, note = ("away" if last else "never"), hub.node_controls.paused(name)
    if why := hub.identities.revoked_in_use(name):
        state, note = "refused", why
    elif name in hub.identities.held:
        state, note = "refused", "its certificate is of an earlier life of its Node; approve it or issue a new one"
    return NodeLine(
        name=name,
        state=state,
        since=hub.clock.moment(last),
        pending=0,
        parked=_count(said.get("objectsParked")),
        held=_count(said.get("objectsHeld")),
        agent=str(said.get("agentVersion") or "")[:80],
        note=short(note or _unreadable(hub, name)),
        dead_letters=_count(said.get("deadLetters")),
    )


def _unreadable(hub: Hub, name: str) -> str:
    return deletion_blocked.unreadable_rules(hub.placement, name) if hub.placement.rules.broken else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
