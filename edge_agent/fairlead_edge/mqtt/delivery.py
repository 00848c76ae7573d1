"""Messages delivered to one subscriber and not acknowledged yet: packet identifiers, and how many more it may get."""

from __future__ import annotations

from typing import Final

from fairlead_edge.mqtt.limits import DELIVERED_MAX
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS, Leased

_PACKET_IDENTIFIERS: Final = 65_536


class DeliveryWindow:
    """At most ``size`` messages at a time.

    A message that failed before is the last one the client gets until it acknowledges it: if it is the message that
    makes the client fail, no other fails with it.
    """

    def __init__(self) -> None:
        self.size = DELIVERED_MAX
        self._unacknowledged: dict[int, tuple[str, str]] = {}
        """By packet identifier: endpoint and id."""
        self._retried = 0
        """Packet identifier of the last message delivered that had failed before."""
        self._retried_since: float | None = None
        self._next_packet = 1

    def __len__(self) -> int:
        return len(self._unacknowledged)

    @property
    def room(self) -> int:
        """How many more messages the client may get; 0 while it has one that failed before."""
        return 0 if self._retried in self._unacknowledged else self.size - len(self._unacknowledged)

    def free_packet(self) -> int:
        """A packet identifier that is not in use; there is always one, as the window is small."""
        while self._next_packet in self._unacknowledged:
            self._next_packet = self._next_packet % (_PACKET_IDENTIFIERS - 1) + 1
        packet = self._next_packet
        self._next_packet = packet % (_PACKET_IDENTIFIERS - 1) + 1
        return packet

    def add(self, packet: int, endpoint: str, leased: Leased) -> None:
        """This message was written."""
        self._unacknowledged[packet] = (endpoint, leased.id)
        if leased.attempt > 1:
            self._retried, self._retried_since = packet, None

    def acknowledged(self, packet: int) -> tuple[str, str] | None:
        """Endpoint and id of the message; None if the identifier is not in use."""
        return self._unacknowledged.pop(packet, None)

    def tick(self, now: float) -> None:
        """Call every second or so: when the lease of a retried message has ended, others need not wait for it."""
        if self._retried in self._unacknowledged:
            self._retried_since = now if self._retried_since is None else self._retried_since
            if now - self._retried_since >= LEASE_SECONDS:
                self._retried = 0

    def take(self) -> list[tuple[str, str]]:
        """Endpoint and id of everything unacknowledged, when the connection is over."""
        found = list(self._unacknowledged.values())
        self._unacknowledged.clear()
        return found
