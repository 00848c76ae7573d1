"""Up: messages of the node, a batch a frame."""

from __future__ import annotations

import msgspec

from fairlead_wire.message.header import Encoding, Epoch, Header, Id, Name, Place


class Upstream(Header, frozen=True, kw_only=True, tag="upstream"):
    """Edge: a batch of one stream (content: JSON array of ``UpstreamMessage``)."""

    id: Id
    stream: Name
    encoding: Encoding = ""
    follows: bool = False
    """As this batch left, an earlier one of its stream was unanswered: if that one is put off, so is this."""
    traceparent: Name | None = None
    """The W3C trace context of the batch, where one is recorded."""
    topic: Name = ""
    """Messages of this topic alone, which was deferred: a stream with an order of its own, until it has caught up."""
    positions: bool = False
    """Say in the ack where the messages stand in their topics."""


class UpstreamMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One message as the edge stored it; the hub adds ``node`` from the link's identity (contract section 8)."""

    id: str
    topic: str
    """``namespace/name``."""
    epoch: Epoch
    sequence: Epoch
    source: str
    priority: Place
    enqueued_at: str
    properties: dict[str, str | None] = {}
    system_properties: dict[str, str | None] = {}
    body: msgspec.Raw = msgspec.Raw(b"null")
    body_base64: str | None = None
