"""Where one object is on its way to one node, while the node does not simply hold what it should.

    IN_SYNC ─offered─▶ QUEUED ─sent─▶ IN_FLIGHT ─matched─▶ IN_SYNC

``TRANSITIONS`` is all of it, the failures too; docs/explanation/delivery.md draws it, made from this table.  A state is
a value with what belongs to it, and its class is its name in the table.  IN_SYNC is the absence of a record: a key
that is in sync costs its entry of what the edge holds, and nothing here.

A pause of the node is no state of a key: it stops all of them at once, and nothing of a key changes by it.  A pause of
an object is one: its key is WITHHELD at each node where something of it would be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec

from fairlead_hub.cluster.content import ContentId
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.in_flight import InFlightMessage
from fairlead_hub.delivery.keys.backoff import KeyFailures
from fairlead_wire.errors import LocalError

# ---- states --------------------------------------------------------------------------------------


class InSync(msgspec.Struct, frozen=True, gc=False):
    """The edge holds exactly what is wanted; there is no record."""


class Queued(msgspec.Struct, frozen=True, gc=False):
    """Something is to be sent, as soon as there is room; what, is looked up then."""

    priority: int
    """Lower goes first."""


class KeyInFlight(msgspec.Struct, frozen=True, gc=False):
    """Sent, and not answered yet."""

    id: int
    message: InFlightMessage
    again: int | None = None
    """Something newer is wanted: the priority with which the key is queued after the answer."""

    @property
    def content_id(self) -> ContentId:
        """What was sent, or deleted."""
        return self.message.content_id


class Backoff(msgspec.Struct, frozen=True, gc=False):
    """A send failed; it is tried again."""

    due: float
    retry: int
    """The first is 1."""


class Cause(StrEnum):
    """Why something is withheld."""

    NOT_GRANTED = "not granted"
    """Topics that EdgeRoutes name are not written down on the EdgeNode yet."""
    DELETION_BLOCKED = "deletion blocked"
    """It is not certain that the deletion is meant: a cache is not synced, a rule cannot be read."""
    DELETION_GUARD = "deletion guard"
    """Too many deletions at once."""
    PAUSE = "pause"
    """The node is paused.  Reported, never stored (see the module)."""
    OBJECT_PAUSED = "object paused"
    """The object is paused: its newest content waits."""
    DELETION_PAUSED = "deletion paused"
    """The object is paused and no longer wanted at this node."""


class Withheld(msgspec.Struct, frozen=True, gc=False):
    """It may not be sent, or not be deleted, yet; when the cause ends it is offered again."""

    cause: Cause
    why: str

    @property
    def keeps(self) -> bool:
        """It is a deletion: the node keeps what it should not hold."""
        return self.cause in (Cause.DELETION_BLOCKED, Cause.DELETION_GUARD, Cause.DELETION_PAUSED)


State = InSync | Queued | KeyInFlight | Backoff | Parked | Withheld
"""``Parked`` (given up until something newer, the schedule, or not wanted) is also what is reported of it."""
Recorded = Queued | KeyInFlight | Backoff | Parked | Withheld
IN_SYNC: Final = InSync()
NAMES: Final[Mapping[type[State], str]] = {
    InSync: "IN_SYNC",
    Queued: "QUEUED",
    KeyInFlight: "IN_FLIGHT",
    Backoff: "BACKOFF",
    Parked: "PARKED",
    Withheld: "WITHHELD",
}


def is_pending(state: State) -> bool:
    """On its way to the node: it arrives by itself, unless something else happens."""
    kind = type(state)
    return (
        kind is KeyInFlight or kind is Queued or (kind is not Parked and not (type(state) is Withheld and state.keeps))
    )


# ---- transitions ---------------------------------------------------------------------------------


Event = Literal["offered", "matched", "sent", "withheld", "failed", "gave up", "superseded", "due"]
"""What happens to a key:

offered     something else may be wanted than what the edge holds, or than what was tried
matched     the edge holds what is wanted: by an ack, or because what is wanted changed back
sent        an update or a delete is on the link
withheld    it may not be sent, or not be deleted, yet
failed      nacked or not answered in time, and there are retries left
gave up     the same without a retry left or without hope; or no edge could take it
superseded  answered, well or not, and by now something newer is wanted
due         the time has come to try again
"""

TRANSITIONS: Final[Mapping[type[State], Mapping[Event, type[State]]]] = {
    InSync: {
        "offered": Queued,
    },
    Queued: {
        "offered": Queued,
        "sent": KeyInFlight,
        "withheld": Withheld,
        "gave up": Parked,
        "matched": InSync,
    },
    KeyInFlight: {
        "offered": KeyInFlight,
        "matched": InSync,
        "superseded": Queued,
        "failed": Backoff,
        "gave up": Parked,
    },
    Backoff: {
        "offered": Queued,
        "due": Queued,
        "matched": InSync,
    },
    Parked: {
        "offered": Queued,
        "due": Queued,
        "matched": InSync,
    },
    Withheld: {
        "offered": Queued,
        "matched": InSync,
    },
}  # fmt: skip


class ImpossibleTransition(LocalError):
    """The table does not lead there: a mistake in this program, never the peer's."""

    def __init__(self, key: str, before: State, event: Event, after: State) -> None:
        super().__init__(f"{key}: {NAMES[type(before)]} cannot become {NAMES[type(after)]} when {event}")


# ---- the record ----------------------------------------------------------------------------------


class ReportedState(NamedTuple):
    """An ObjectSync says that this object is late, parked or kept; when that ends it has to be written again."""

    uid: str
    path: str
    is_wanted: bool = True
    """It is reported as something that is on its way to the node, not as something to be deleted there."""
    is_due: bool = False
    """By now something else is to be said; the next sweep does so."""


class KeyState(msgspec.Struct, gc=False):
    """All that is known of one key that is not in sync, besides what the edge holds and what is wanted.

    ``UnsyncedKeys`` changes state and time, ``NodeKeys`` the rest.
    """

    state: Recorded
    since: float
    """When it began to be on its way, or was stopped; seconds of one monotonic clock."""
    reported: ReportedState | None = None
    failures: KeyFailures | None = None
    """Of the content that failed last; something newer begins without."""

    @property
    def is_reported(self) -> bool:
        """What the status says of it is still so."""
        return self.reported is not None and not self.reported.is_due
