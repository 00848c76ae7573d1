"""Kubernetes Events on transitions, aggregated: a repeated event about an object increases its count.

note ─▶ new ─▶ create            again within ``WINDOW_SECONDS`` ─▶ count rises, one patch a flush
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Literal

import msgspec

from fairlead_wire.objects import api_group

WINDOW_SECONDS = 600.0
KEPT_MAX = 4096
"""Events remembered for counting; the oldest is forgotten first."""
PENDING_MAX = 1000
"""Events waiting to be written.  Beyond this limit they are dropped and counted: they are hints, the records are
not."""

Type = Literal["Normal", "Warning"]


class Regarding(msgspec.Struct, frozen=True, kw_only=True):
    """What the Event is about: a document of ours, or a delivered object."""

    kind: str
    namespace: str
    name: str
    api_version: str = api_group.API_VERSION
    uid: str = ""


class KubeEvent(msgspec.Struct, kw_only=True):
    """One aggregated event."""

    regarding: Regarding
    type: Type
    reason: str
    message: str
    first: str
    last: str
    count: int
    since: float
    name: str
    created: bool = False


class KubeEvents:
    """``note`` records events, ``take`` returns those to write."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Regarding, str], KubeEvent] = OrderedDict()
        self._pending: OrderedDict[tuple[Regarding, str], None] = OrderedDict()
        self._number = 0
        self.dropped = 0

    def note(self, regarding: Regarding, type: Type, reason: str, message: str, now: float, text: str) -> None:
        """``text`` is ``now`` in RFC 3339."""
        key = (regarding, reason)
        known = self._known.get(key)
        if known is not None and now - known.since < WINDOW_SECONDS:
            known.count += 1
            known.last, known.message = text, message
        else:
            if len(self._pending) >= PENDING_MAX:
                self.dropped += 1
                return
            self._number += 1
            known = KubeEvent(
                regarding=regarding, type=type, reason=reason, message=message, first=text, last=text, count=1,
                since=now, name=f"{regarding.name[:200].rstrip('.-')}.{int(now * 1000):x}{self._number:x}",
            )  # fmt: skip
            self._known[key] = known
            while len(self._known) > KEPT_MAX:
                self._known.popitem(last=False)
        self._pending[key] = None

    def take(self) -> list[KubeEvent]:
        """The Events to write now, each once, with its newest count."""
        keys, self._pending = list(self._pending), OrderedDict()
        return [self._known[key] for key in keys if key in self._known]


def body(event: KubeEvent, hub: str) -> dict[str, Any]:
    """The core/v1 Event to create."""
    regarding = event.regarding
    namespace = regarding.namespace or "default"
    involved = {"apiVersion": regarding.api_version, "kind": regarding.kind, "name": regarding.name}
    if regarding.uid:
        involved["uid"] = regarding.uid
    if regarding.namespace:
        involved["namespace"] = regarding.namespace
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event.name, "namespace": namespace},
        "involvedObject": involved,
        "reason": event.reason,
        "message": event.message[:1024],
        "type": event.type,
        "count": event.count,
        "firstTimestamp": event.first,
        "lastTimestamp": event.last,
        "source": {"component": "fairlead-hub", "host": hub},
    }
