"""Messages delivered to one subscriber and not acknowledged yet: packet identifiers, and how many more it may get."""

from __future__ import annotations

from typing import Final

from fairlead_edge.mqtt.limits import DELIVERED_MAX
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS, Leased

_PACKET_IDENTIFIERS: Final = 65_536


class DeliveryWindow:
    """The unacknowledged messages of one subscriber, at most ``size``.

    After a message that failed before, the client gets no other until it acknowledges it: if that message crashes the
    client, no other fails with it.
    """

    def __init__(self) -> None:
        self.size = DELIVERED_MAX
        self._unacknowledged: dict[int, tuple[str, str]] = {}
        """Endpoint and id by packet identifier."""
        self._retried = 0
        """The packet identifier of the message that failed before, if the client has one."""
        self._retried_since: float | None = None
        self._next_packet = 1

    def __len__(self) -> int:
        return len(self._unacknowledged)

    @property
    def room(self) -> int:
        """How many more messages the client may get; 0 while it has one that failed before."""
        return 0 if self._retried in self._unacknowledged else self.size - len(self._unacknowledged)

    def free_packet(self) -> int:
        """A packet identifier that is not in use; there always is one, because the window is small."""
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
        """Call about once a second: once the lease of a retried message has ended, others need not wait for it."""
        if self._retried in self._unacknowledged:
            self._retried_since = now if self._retried_since is None else self._retried_since
            if now - self._retried_since >= LEASE_SECONDS:
                self._retried = 0

    def take(self) -> list[tuple[str, str]]:
        """Remove and return endpoint and id of all unacknowledged messages, when the connection ends."""
        found = list(self._unacknowledged.values())
        self._unacknowledged.clear()
        return found
