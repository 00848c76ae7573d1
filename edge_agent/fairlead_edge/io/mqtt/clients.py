"""Connected clients: takeover of a client identifier, limits, and sessions kept for disconnected clients.

    accepted ─▶ opening (``OPENING_MAX``; the oldest is closed) ─CONNECT▶ open (``connections_max``) ─▶ kept

If ``connections_max`` is reached, an authenticated client is still accepted: the longest silent connection of the
module
with the most connections is closed, but never one with messages that wait for an acknowledgement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fairlead_edge.io.mqtt.connection import Connection
from fairlead_edge.mqtt.client import MqttClient
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_edge.mqtt.session import Opening, Subscribed
from fairlead_edge.mqtt.wills import AuthoredWill, KeptSessions

OPENING_MAX: Final = 256
"""The most connections without a CONNECT; each may have sent 64 KiB."""


class Clients:
    """``publish`` stores a will."""

    def __init__(
        self, *, connections_max: int, clock: Callable[[], float], publish: Callable[[AuthoredWill], None]
    ) -> None:
        self._connections_max = connections_max
        self._clock = clock
        self._publish = publish
        self._opening: dict[Connection, None] = {}
        self._open: dict[MqttClient, Connection] = {}
        self.kept = KeptSessions()

    def __iter__(self) -> Iterator[Connection]:
        """All connections, as they are now."""
        return iter([*self._opening, *self._open.values()])

    @property
    def open_now(self) -> int:
        return len(self._open)

    def opened(self, connection: Connection) -> None:
        """A connection was accepted; its CONNECT must follow."""
        if len(self._opening) >= OPENING_MAX:
            next(iter(self._opening)).abort("no_room")
        self._opening[connection] = None

    def open(self, connection: Connection, opening: Opening) -> Sequence[Subscribed] | None:
        """Its CONNECT was accepted; returns the subscriptions kept for it.  Raises ``MqttRefused`` if there is no
        room."""
        client = opening.client
        before = self._open.get(client)
        if before is not None:
            before.refuse(MqttRefused(Code.SESSION_TAKEN_OVER, "another connection uses this client identifier"))
            if self._open.get(client) is before:
                self.over(before)
        elif len(self._open) >= self._connections_max:
            self._make_room()
        self._opening.pop(connection, None)
        self._open[client] = connection
        subscriptions, wills = self.kept.take(client, clean=opening.clean, now=self._clock())
        for each in wills:
            self._publish(each)
        return subscriptions

    def over(self, connection: Connection) -> None:
        """The connection ended."""
        self._opening.pop(connection, None)
        session = connection.session
        opening = session.opening
        if opening is None or self._open.get(opening.client) is not connection:
            return
        del self._open[opening.client]
        will = session.will
        wills = self.kept.keep(
            opening.client,
            session.subscriptions,
            now=self._clock(),
            seconds=session.expiry_seconds,
            will=AuthoredWill(will.message, opening.author) if will is not None else None,
            delay_seconds=will.delay_seconds if will is not None else 0,
        )
        for each in wills:
            self._publish(each)

    def tick(self) -> None:
        """Call about once a second."""
        now = self._clock()
        for connection in self:
            connection.tick(now)
        for each in self.kept.due(now):
            self._publish(each)

    def _make_room(self) -> None:
        places = Counter(client.module for client in self._open)
        free = [
            (-places[client.module], connection.session.last_activity_at, index, connection)
            for index, (client, connection) in enumerate(self._open.items())
            if not connection.session.unacknowledged
        ]
        if not free:
            raise MqttRefused(Code.QUOTA_EXCEEDED, f"{self._connections_max} clients are connected, and all are busy")
        *_, connection = min(free, key=lambda each: each[:3])
        connection.refuse(MqttRefused(Code.QUOTA_EXCEEDED, "closed for another client, being silent for longest"))
