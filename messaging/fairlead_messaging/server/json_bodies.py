"""Decodes JSON bodies to the requests of ``api``, and encodes answers; ``avro`` does the same for Avro bodies.

The size of bodies has been checked before.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from fairlead_messaging.api import responses
from fairlead_messaging.api.errors import Refused
from fairlead_messaging.api.requests import (
    PublishRequest,
    RollbackDetail,
)
from fairlead_messaging.server import validation
from fairlead_messaging.server.commands import PublishedAt
from fairlead_messaging.server.log.reader import MessagePage
from fairlead_wire.validation import json_body

Asked = TypeVar("Asked")
_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}
_encoder = msgspec.json.Encoder()


def decode(raw: bytes, kind: type[Asked]) -> Asked:
    """Raises: Refused with what is wrong and where."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(raw)  # type: ignore[no-any-return]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = json_body.reason_of(raw, kind, error) if issubclass(kind, msgspec.Struct) else str(error)
        raise Refused(f"body: {reason}", code="bad_body") from None


def publish_body(raw: bytes, bytes_max: int) -> PublishRequest:
    """Raises: Refused with what is wrong and where, BodyTooLarge as ``check_size``."""
    # Each message has at most three commas (before it, within it, and in sequence numbers); some more are elsewhere.
    validation.check_size(max(0, raw.count(b",") - 16) // 3, bytes_max)
    asked = decode(raw, PublishRequest)
    validation.check_size(len(asked.messages or ()), bytes_max)
    return asked


def decode_properties(raw: bytes) -> object:
    """Topic properties: nothing, or any JSON, which ``topic.parse_properties`` checks."""
    return decode(raw, object) if raw.strip() else None


def encode(value: object) -> bytes:
    return _encoder.encode(value)


def encode_page(page: MessagePage) -> bytes:
    return _encoder.encode(
        [
            responses.Message(message_id.hex(), payload)
            for message_id, payload in zip(page.ids, page.payloads, strict=True)
        ]
    )


def rollback_of(pointer: int, answer: PublishedAt) -> RollbackDetail:
    """The answer to a transactional publish; a rollback sends it back unchanged."""
    assert answer.first is not None and answer.last is not None
    return RollbackDetail(
        transactionWritePointer=pointer,
        startTimestamp=answer.first.timestamp,
        startSequenceId=answer.first.sequence,
        endTimestamp=answer.last.timestamp,
        endSequenceId=answer.last.sequence,
    )


def published_of(answer: PublishedAt) -> responses.PublishedByProducer:
    """The answer to a producer: which sequences were stored and which were known."""
    return responses.PublishedByProducer(producer=responses.Published(stored=answer.stored, known=answer.known))
