"""One node as one row of the console, from the core's own indexes: nothing that grows with its objects is counted."""

from __future__ import annotations

from typing import NamedTuple

from fairlead_hub.view import HubView, SessionView
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


def of(view: HubView, name: str, session: SessionView | None) -> NodeLine:
    """As it is now."""
    return _away(view, name) if session is None else _connected(view, name, session)


def _connected(view: HubView, name: str, session: SessionView) -> NodeLine:
    state, note = "sync", ""
    if session.guard:
        state, note = "stopped", session.guard
    elif paused := view.paused(name):
        state, note = "paused", paused
    elif session.parked:
        state = "parked"
    elif not session.live:
        state, note = "waiting", session.not_synced or "what it holds is being compared"
    elif session.pending:
        state = "behind"
    return NodeLine(
        name=name,
        state=state,
        since=int(view.clock.seconds(session.oldest)) if session.oldest is not None else 0,
        pending=session.pending,
        parked=session.parked,
        held=session.held,
        agent=session.agent[:80],
        note=short(note or view.unreadable_rules(name)),
        dead_letters=edge.dead_letters if (edge := view.edge(name)) is not None else 0,
    )


def _away(view: HubView, name: str) -> NodeLine:
    said = view.outline(name)
    last = str(said.get("lastContactTime") or "")
    state, note = ("away" if last else "never"), view.paused(name)
    if why := view.revoked(name):
        state, note = "refused", why
    elif view.is_identity_held(name):
        state, note = "refused", "its certificate is of an earlier life of its Node; approve it or issue a new one"
    return NodeLine(
        name=name,
        state=state,
        since=view.clock.moment(last),
        pending=0,
        parked=_count(said.get("objectsParked")),
        held=_count(said.get("objectsHeld")),
        agent=str(said.get("agentVersion") or "")[:80],
        note=short(note or view.unreadable_rules(name)),
        dead_letters=_count(said.get("deadLetters")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
