"""Outcomes of deliveries in one session, for the hub's records, counters and events.

NodeKeys ─events─▶ Hub ─▶ SyncController (ObjectSync, EdgeNode), Counts, Kubernetes Events, CloudEvents
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead_hub.cluster.content import ContentId, HeldCopy
from fairlead_hub.counts import Counts


class AckedByEdge(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The edge has stored this object durably."""

    key: str
    held: HeldCopy
    seconds: float
    """From the offer to the ack."""


class RemovedAtEdge(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The edge no longer holds this UID."""

    key: str
    uid: str
    path: str


class Parked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Delivery is given up for now; other keys continue.  ``code`` is for programs, ``reason`` for people."""

    key: str
    content_id: ContentId
    """What could not be sent or deleted."""
    path: str
    code: str
    reason: str
    retries: int
    next_retry_at: float

    @property
    def uid(self) -> str:
        return self.content_id.uid


class Unparked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It is retried; ``why`` is one of newer, schedule, unwanted."""

    key: str
    uid: str
    path: str
    why: str


class Paused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The newest content waits because the object is paused."""

    key: str


class Retried(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A send failed and will be repeated; ``code`` is timeout or the nack's."""

    key: str
    code: str


class Recovered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A key reported as late needs no send any more: the edge holds what is wanted, or may keep what it has for now."""

    key: str


class Compared(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It is known now what the edge holds."""

    divergent_buckets: int
    differences: int


DeliveryEvent = AckedByEdge | RemovedAtEdge | Parked | Unparked | Paused | Retried | Recovered | Compared


def count(events: Iterable[DeliveryEvent], counts: Counts) -> None:
    """Add the events to the hub's totals."""
    for event in events:
        match event:
            case AckedByEdge():
                counts.acked(event.seconds)
            case RemovedAtEdge():
                counts.removal()
            case Parked():
                counts.parked(event.code)
            case Retried():
                counts.retried(event.code)
            case Compared():
                counts.compared(event.divergent_buckets)
            case Unparked() | Paused() | Recovered():
                pass
