"""The state of one object on its way to one node, while the node does not hold what it should.

    IN_SYNC ─offered─▶ QUEUED ─sent─▶ IN_FLIGHT ─matched─▶ IN_SYNC

``TRANSITIONS`` is complete, including failures; docs/explanation/delivery.md draws it, generated from this table.  A
state is a value with its data, and its class is its name in the table.  IN_SYNC is the absence of a record: a key in
sync costs its entry of what the edge holds, and nothing here.

A pause of the node is not a state of a key: it stops all keys at once and changes none of them.  A pause of an object
is one: its key is WITHHELD at each node where something of it would be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec

from fairlead_hub.cluster.content import ContentId
from fairlead_hub.delivery.backoff import KeyFailures
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.in_flight import InFlightMessage
from fairlead_wire.errors import LocalError

# ---- states --------------------------------------------------------------------------------------


class InSync(msgspec.Struct, frozen=True, gc=False):
    """The edge holds exactly what is wanted; there is no record."""


class Queued(msgspec.Struct, frozen=True, gc=False):
    """Something is to be sent as soon as there is room; what, is looked up at that time."""

    priority: int
    """Lower goes first."""


class KeyInFlight(msgspec.Struct, frozen=True, gc=False):
    """Sent and not answered yet."""

    id: int
    message: InFlightMessage
    again: int | None = None
    """Set if something newer is wanted: the priority with which the key is queued after the answer."""

    @property
    def content_id(self) -> ContentId:
        """What was sent or deleted."""
        return self.message.content_id


class BackingOff(msgspec.Struct, frozen=True, gc=False):
    """A send failed and will be retried."""

    due: float
    retry: int
    """The first is 1."""


class Cause(StrEnum):
    """Why something is withheld."""

    NOT_GRANTED = "not granted"
    """EdgeRoutes name topics that the EdgeNode does not list yet."""
    DELETION_BLOCKED = "deletion blocked"
    """It is not certain that the deletion is intended: a cache is not synced, or a rule is unreadable."""
    DELETION_GUARD = "deletion guard"
    """Too many deletions at once."""
    PAUSE = "pause"
    """The node is paused.  Reported, never stored (see the module docstring)."""
    OBJECT_PAUSED = "object paused"
    """The object is paused: its newest content waits."""
    DELETION_PAUSED = "deletion paused"
    """The object is paused and no longer wanted at this node."""


class Withheld(msgspec.Struct, frozen=True, gc=False):
    """It may not be sent, or not deleted, yet; it is offered again when the cause ends."""

    cause: Cause
    why: str

    @property
    def keeps(self) -> bool:
        """Whether it is a deletion: the node keeps what it should not hold."""
        return self.cause in (Cause.DELETION_BLOCKED, Cause.DELETION_GUARD, Cause.DELETION_PAUSED)


State = InSync | Queued | KeyInFlight | BackingOff | Parked | Withheld
"""``Parked`` (given up until something newer, the schedule, or no longer wanted) is also the event that reports it."""
Recorded = Queued | KeyInFlight | BackingOff | Parked | Withheld
IN_SYNC: Final = InSync()
NAMES: Final[Mapping[type[State], str]] = {
    InSync: "IN_SYNC",
    Queued: "QUEUED",
    KeyInFlight: "IN_FLIGHT",
    BackingOff: "BACKOFF",
    Parked: "PARKED",
    Withheld: "WITHHELD",
}


def is_pending(state: State) -> bool:
    """On its way to the node: it arrives without further action."""
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
        "failed": BackingOff,
        "gave up": Parked,
    },
    BackingOff: {
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
    """A transition that the table does not contain: a defect in this program, never the peer's fault."""

    def __init__(self, key: str, before: State, event: Event, after: State) -> None:
        super().__init__(f"{key}: {NAMES[type(before)]} cannot become {NAMES[type(after)]} when {event}")


# ---- the record ----------------------------------------------------------------------------------


class ReportedState(NamedTuple):
    """An ObjectSync reports this object as late, parked or kept; when that ends it has to be written again."""

    uid: str
    path: str
    is_wanted: bool = True
    """It is reported as on its way to the node, not as to be deleted there."""
    is_due: bool = False
    """The report is outdated; the next sweep renews it."""


class KeyState(msgspec.Struct, gc=False):
    """Everything known of a key that is not in sync, besides what the edge holds and what is wanted.

    ``UnsyncedKeys`` changes state and time, ``NodeKeys`` the rest.
    """

    state: Recorded
    since: float
    """When the key became pending or was stopped; seconds of one monotonic clock."""
    reported: ReportedState | None = None
    failures: KeyFailures | None = None
    """Failures of the content that failed last; newer content starts without."""

    @property
    def is_reported(self) -> bool:
        """Whether the status still describes the current state."""
        return self.reported is not None and not self.reported.is_due
