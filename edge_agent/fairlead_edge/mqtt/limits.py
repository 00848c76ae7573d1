"""The limits of an MQTT connection; those of the whole listener are in ``io.mqtt``, those of a packet in ``codec``."""

from __future__ import annotations

from typing import Final

import msgspec

CONNECT_SECONDS_MAX: Final = 10.0
"""The longest time from the start of a connection to its CONNECT."""
CONNECT_BYTES_MAX: Final = 64 * 1024
RECEIVE_MAXIMUM: Final = 1024
"""The most unacknowledged PUBLISHes of a level 5 client."""
KEEP_ALIVE_SECONDS: Final = 300
"""The maximum at level 5, and the value for a client that asks for none."""
KEEP_ALIVE_3_SECONDS_MAX: Final = 3600
"""The maximum at level 4, where the server cannot change the value the client asked for."""
KEEP_ALIVE_FACTOR: Final = 1.5
DELIVERED_MAX: Final = 100
"""The most unacknowledged messages of a subscriber."""
SUBSCRIPTIONS_MAX: Final = 100
"""The most subscriptions of one session."""
FILTERS_MAX: Final = 100
"""The most topic filters in one SUBSCRIBE or UNSUBSCRIBE."""
FILTER_CHARS_MAX: Final = 1024
"""The longest topic filter; filters are kept with their sessions."""
CLIENT_ID_CHARS_MAX: Final = 128
SESSIONS_KEPT_MAX: Final = 1024
"""The most sessions of disconnected clients; beyond it, the oldest is dropped and its client must subscribe again."""
DESTINATIONS_MAX: Final = 256
"""How many topics a session caches with their meaning."""
DESTINATION_CHARS_MAX: Final = 256
"""Longer topics are not cached: with appended properties they hardly ever repeat."""


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that the settings give."""

    node: str
    packet_bytes_max: int
    session_seconds_max: int
    other_topics: bool = False
