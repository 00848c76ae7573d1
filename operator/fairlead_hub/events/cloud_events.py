"""CloudEvents about the hub, its nodes and objects for the system topic, in order of occurrence.

    Hub ─note─▶ waiting ─take─▶ Ready ─▶ io.cloud_event_publisher ─▶ messaging

Recording an event is cheap: one entry in a bounded queue, and none without a consumer.  The status of our documents is
authoritative; an event says that it changed.  Events that can repeat endlessly (refused messages) are reported
immediately, then once per ``REPEAT_SECONDS`` with their count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead_hub.cluster.content import ServedKind, identity
from fairlead_hub.delivery.delivery_events import DeliveryEvent, Parked, Unparked
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.event import Event, short

WAITING_MAX = 10_000
"""Events not yet taken; further ones are dropped and counted."""
REPEAT_SECONDS = 60.0
REPEATS_MAX = 4096
"""Repeating events that are tracked; beyond this limit the oldest is reported early."""
ERRORS_MAX = 8
"""Errors of one EdgeRoutes object in one event; its status has all of them."""


_CONTROLS = {
    "Paused": "node.paused",
    "Resumed": "node.resumed",
    "DeletionGuard": "node.deletion_guard",
    "IdentityRevoked": "identity.revoked",
    "IdentityRenewed": "identity.renewed",
    "IdentityRenewedLate": "identity.late",
    "LateRenewalHeld": "identity.held",
}


class _Repeats:
    """A repeating event: until when it is only counted, and its latest occurrence."""

    __slots__ = ("count", "data", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.count = 0
        self.data: dict[str, Any] = {}


class CloudEvents:
    """See the module docstring.  ``now`` is always seconds of the monotonic clock."""

    def __init__(self, clock: WallClock, kinds: Mapping[str, ServedKind], *, enabled: bool) -> None:
        self._clock = clock
        self._kinds = kinds
        self._enabled = enabled
        """If False, neither messaging nor the console consumes events, and none are kept."""
        self._waiting: deque[Event] = deque()
        self._repeats: dict[tuple[str, str, str], _Repeats] = {}
        self._routes_broken: dict[str, str] = {}
        self.dropped = 0
        """Events dropped for lack of room."""

    def take(self) -> list[Event]:
        """Everything that waits, oldest first."""
        events, self._waiting = list(self._waiting), deque()
        return events

    # ---- of the hub ------------------------------------------------------------------------------

    def hub_started(self, fence: int, now: float) -> None:
        """The hub holds the Lease.  Nothing is known of nodes that have not been reported since."""
        self._note("hub.started", now, {"fence": fence})

    def hub_stopped(self, fence: int, now: float) -> None:
        self._note("hub.stopped", now, {"fence": fence})

    # ---- of nodes --------------------------------------------------------------------------------

    def node_connected(self, session: int, hello: message.Hello, now: float) -> None:
        data = {"session": session, "agentVersion": short(hello.agent), "storeEpoch": str(hello.store_epoch)}
        self._note("node.connected", now, {**data, "objectsHeld": hello.held}, node=hello.node)

    def node_away(self, node: str, reason: str, now: float) -> None:
        """``reason``: connection_ended, not_returned, or the code it was refused with."""
        self._note("node.away", now, {"reason": reason}, node=node)

    def node_replaced(self, before: message.Hello, hello: message.Hello, now: float) -> None:
        """A newer connection took over.  With another store, it is another machine with the same identity."""
        data = {
            "sameStore": before.store_epoch == hello.store_epoch,
            "storeEpochBefore": str(before.store_epoch),
            "storeEpoch": str(hello.store_epoch),
        }
        self._note("node.replaced", now, data, node=hello.node)

    def node_controlled(self, node: str, reason: str, text: str, now: float) -> None:
        """The node was paused or resumed, or its deletion guard tripped; other reasons have methods of their own."""
        type = _CONTROLS.get(reason)
        if type is not None:
            self._note(type, now, {"message": short(text)}, node=node)

    # ---- of identities ---------------------------------------------------------------------------

    def identity_joined(self, node: str, data: dict[str, Any], now: float) -> None:
        """A device got its first certificate under this name."""
        self._note("identity.joined", now, data, node=node)

    def identity_refused(self, node: str, code: str, data: dict[str, Any], now: float) -> None:
        """A device got no certificate; ``node`` is empty if its name is not verified."""
        if self._enabled:
            self._add_limited("identity.refused", node, code, 1, data, now)

    # ---- of objects ------------------------------------------------------------------------------

    def delivered(self, node: str, events: Iterable[DeliveryEvent], now: float) -> None:
        """Report delivery events: parked objects, and those that are sent again."""
        if not self._enabled:
            return
        for event in events:
            if isinstance(event, Parked):
                data = {
                    "reason": short(event.code),
                    "message": short(event.reason),
                    "retries": event.retries,
                    "nextRetryTime": self._clock.text(event.next_retry_at),
                }
                self._object("object.parked", node, event.path, event.uid, data, now)
            elif isinstance(event, Unparked):
                self._object("object.unparked", node, event.path, event.uid, {"reason": event.why}, now)

    def _object(self, type: str, node: str, path: str, uid: str, data: dict[str, Any], now: float) -> None:
        api_version, kind, namespace, name = identity(path, self._kinds)
        about = {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name, "uid": uid}
        self._note(type, now, {"object": about, **data}, node=node, subject=path)

    # ---- of routes and messages ------------------------------------------------------------------

    def routes_read(self, name: str, broken: str, now: float) -> None:
        """The hub read an EdgeRoutes object; ``broken`` says why it cannot be used.  A repetition is not reported."""
        if self._routes_broken.get(name, "") == broken:
            return
        if broken:
            self._routes_broken[name] = broken
            self._note("routes.refused", now, {"routes": name, "errors": [{"message": short(broken)}]}, subject=name)
        else:
            del self._routes_broken[name]

    def routes_reported(
        self,
        node: str,
        before: Mapping[str, message.RoutesStatus],
        after: Mapping[str, message.RoutesStatus],
        now: float,
    ) -> None:
        """An edge said what it made of its EdgeRoutes: objects with errors it did not have before are reported."""
        for name, status in after.items():
            known = before.get(name)
            if status.errors and (known is None or known.errors != status.errors):
                data = {
                    "routes": name,
                    "resourceVersion": status.resource_version,
                    "errors": _errors(status.errors[:ERRORS_MAX]),
                    "errorsTotal": len(status.errors),
                }
                self._note("routes.refused", now, data, node=node, subject=name)

    def messages_refused(self, node: str, refused: Sequence[message.RefusedItem], now: float) -> None:
        """Messages that will never be stored; the edge keeps them as dead letters."""
        if not self._enabled:
            return
        by_code: dict[str, list[message.RefusedItem]] = {}
        for each in refused:
            by_code.setdefault(each.code, []).append(each)
        for code, same in by_code.items():
            self._add_limited("messages.refused", node, code, len(same), {"message": short(same[-1].reason)}, now)

    def queues_stalled(self, node: str, edge: message.EdgeStatus, now: float) -> None:
        """Queues of which nothing is accepted although the node is connected.

        Nothing is lost, but a person should look.
        """
        for queue in edge.queues:
            if self._enabled and queue.stalled_seconds:
                data = {"message": short(queue.stalled_by), "priority": queue.priority, "length": queue.length}
                self._add_limited("queue.stalled", node, str(queue.priority), 1, data, now)

    def flush(self, now: float) -> None:
        """Report what was only counted for long enough; call about every second."""
        over = [key for key, repeats in self._repeats.items() if repeats.until <= now]
        for key in over:
            self._flush_repeats(key, self._repeats.pop(key), now)

    def _add_limited(self, type: str, node: str, reason: str, count: int, data: dict[str, Any], now: float) -> None:
        key = (type, node, reason)
        repeats = self._repeats.get(key)
        if repeats is None:
            if len(self._repeats) >= REPEATS_MAX:
                oldest = next(iter(self._repeats))
                self._flush_repeats(oldest, self._repeats.pop(oldest), now)
            self._repeats[key] = _Repeats(now + REPEAT_SECONDS)
            self._note(type, now, {"reason": reason, "count": count, **data}, node=node)
        else:
            repeats.count += count
            repeats.data = data

    def _flush_repeats(self, key: tuple[str, str, str], repeats: _Repeats, now: float) -> None:
        type, node, reason = key
        if repeats.count:
            self._note(type, now, {"reason": reason, "count": repeats.count, **repeats.data}, node=node)

    def _note(self, type: str, now: float, data: dict[str, Any], *, node: str = "", subject: str = "") -> None:
        if not self._enabled:
            return
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        event = Event(type=type, time=self._clock.text(now), node=node, subject=subject or node, data=data)
        self._waiting.append(event)


def _errors(errors: Sequence[message.RouteError]) -> list[dict[str, Any]]:
    return [
        {"route": short(each.route), "message": short(each.message), "line": each.line, "column": each.column}
        for each in errors
    ]
