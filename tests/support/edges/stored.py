"""Messages in the form in which the outbox stores them."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.envelope import StoredMessage


def message(id: str = "m1", body: bytes = b"1", **more: Any) -> StoredMessage:
    """A message with this JSON body, unless ``more`` has its ``body_base64``."""
    fields: dict[str, Any] = {"source": "/messages", "enqueued_at": "t", "properties": {}, "system_properties": {}}
    if "body_base64" not in more:
        fields["body"] = msgspec.Raw(body)
    return StoredMessage(id=id, **{**fields, **more})


def content(id: str = "m1", body: bytes = b"1", **more: Any) -> bytes:
    """Its bytes."""
    return envelope.stored(message(id, body, **more))
