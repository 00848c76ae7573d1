"""Every limit of an MQTT connection; those of the whole listener are in ``io.mqtt``, those of a packet in ``codec``."""

from __future__ import annotations

from typing import Final

import msgspec

CONNECT_SECONDS_MAX: Final = 10.0
"""From the start of a connection to its CONNECT."""
CONNECT_BYTES_MAX: Final = 64 * 1024
RECEIVE_MAXIMUM: Final = 1024
"""Unacknowledged PUBLISHes of a level 5 client."""
KEEP_ALIVE_SECONDS: Final = 300
"""The maximum at level 5, and the value for a client that asks for none."""
KEEP_ALIVE_3_SECONDS_MAX: Final = 3600
"""A level 4 client cannot be given another value than it asked for."""
KEEP_ALIVE_FACTOR: Final = 1.5
DELIVERED_MAX: Final = 100
"""Messages a subscriber may have unacknowledged."""
SUBSCRIPTIONS_MAX: Final = 100
"""Of one session."""
FILTERS_MAX: Final = 100
"""Topic filters in one SUBSCRIBE or UNSUBSCRIBE."""
FILTER_CHARS_MAX: Final = 1024
"""Filters are kept with their sessions."""
CLIENT_ID_CHARS_MAX: Final = 128
SESSIONS_KEPT_MAX: Final = 1024
"""Sessions of clients that are not connected; beyond it the oldest is dropped and its client must subscribe again."""
DESTINATIONS_MAX: Final = 256
"""Topics whose meaning a session remembers."""
DESTINATION_CHARS_MAX: Final = 256
"""Longer topics are not remembered: with properties appended they hardly ever repeat."""


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that the settings give."""

    node: str
    packet_bytes_max: int
    session_seconds_max: int
    other_topics: bool = False
