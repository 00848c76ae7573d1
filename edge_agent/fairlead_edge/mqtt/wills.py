"""Delayed wills, and sessions kept for disconnected clients: by client, bounded, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fairlead_edge.mqtt.client import MqttClient
from fairlead_edge.mqtt.limits import SESSIONS_KEPT_MAX
from fairlead_edge.mqtt.packets import PublishPacket
from fairlead_edge.mqtt.session import Subscribed
from fairlead_edge.outbox.authorship import Author


class AuthoredWill(msgspec.Struct, frozen=True):
    """A will and its author."""

    message: PublishPacket
    author: Author


class KeptSession(msgspec.Struct, frozen=True):
    """Until when the session is kept, and when its will is due (None: it has none)."""

    subscriptions: tuple[Subscribed, ...]
    until: float
    will: AuthoredWill | None = None
    will_at: float = 0.0


class KeptSessions:
    """The sessions of disconnected clients.  Times are on any monotonic clock."""

    def __init__(self, most: int = SESSIONS_KEPT_MAX) -> None:
        self._most = most
        self._kept: dict[MqttClient, KeptSession] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(
        self,
        client: MqttClient,
        subscriptions: Mapping[str, Subscribed],
        *,
        now: float,
        seconds: int,
        will: AuthoredWill | None,
        delay_seconds: int,
    ) -> list[AuthoredWill]:
        """The client disconnected.  Returns wills to publish now: its own, or that of a session dropped for space.

        A will is published when its delay is over or its session ends, whichever comes first (MQTT 5, 3.1.3.2.2).
        """
        delay = min(delay_seconds, seconds)
        if seconds <= 0:
            return [will] if will is not None else []
        due = [will] if will is not None and delay <= 0 else []
        if due:
            will = None
        self._kept.pop(client, None)
        if len(self._kept) >= self._most:
            oldest = self._kept.pop(next(iter(self._kept)))
            due += [oldest.will] if oldest.will is not None else []
        self._kept[client] = KeptSession(tuple(subscriptions.values()), now + seconds, will, now + delay)
        return due

    def take(
        self, client: MqttClient, *, clean: bool, now: float
    ) -> tuple[Sequence[Subscribed] | None, list[AuthoredWill]]:
        """The client is back: returns its subscriptions (None: no session continues), and the wills to publish."""
        kept = self._kept.pop(client, None)
        if kept is None:
            return None, []
        if clean or kept.until <= now:  # the session ends, and its will is published
            return None, [kept.will] if kept.will is not None else []
        return kept.subscriptions, []

    def due(self, now: float) -> list[AuthoredWill]:
        """Drop expired sessions; returns the wills that are due."""
        found: list[AuthoredWill] = []
        for client, kept in list(self._kept.items()):
            if kept.will is not None and min(kept.will_at, kept.until) <= now:
                found.append(kept.will)
                self._kept[client] = msgspec.structs.replace(kept, will=None)
            if kept.until <= now:
                del self._kept[client]
        return found
