"""Messages on their way in, before they have a position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast


class LoggedMessage(NamedTuple):
    """A payload and its own time to live in seconds; 0 means the topic's."""

    payload: bytes
    ttl_seconds: int = 0


Messages = Sequence[bytes | LoggedMessage]
"""Of one request; bare bytes live as long as their topic.  A million of them are not a million objects more."""


def columns(messages: Messages) -> tuple[Sequence[bytes], list[int]]:
    """(payloads, times to live in seconds); no times when none has its own."""
    if all(kind is bytes for kind in set(map(type, messages))):
        return cast("Sequence[bytes]", messages), []
    whole = [message if isinstance(message, LoggedMessage) else LoggedMessage(message) for message in messages]
    ttls = [message.ttl_seconds for message in whole]
    return [message.payload for message in whole], ttls if any(ttls) else []
