"""One node as one row of the console, from the core's indexes: the cost does not grow with the node's objects."""

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
"""States of a node and their labels.  The first one of ``refused``, ``away`` … that applies is shown."""
NEEDS_ATTENTION = ("refused", "stopped", "parked")
"""States that do not end by themselves, or not soon."""


class NodeLine(NamedTuple):
    """A row.  It changes only on an event: it holds points in time, and ages are computed where they are shown."""

    name: str
    state: str
    since: int
    """Seconds since 1970 when its oldest pending object was queued, or when the node was last heard of; 0 if
    unknown."""
    pending: int
    parked: int
    held: int
    agent: str
    note: str
    """Why the node waits; may be empty."""
    dead_letters: int = 0
    """Messages it could not deliver and keeps, from its last report."""


def of(view: HubView, name: str, session: SessionView | None) -> NodeLine:
    """The row of a node in its current state."""
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
        state, note = "waiting", session.not_synced or "its store is being compared"
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
        state, note = "refused", "its certificate is from before its Node was recreated; approve it or issue a new one"
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
