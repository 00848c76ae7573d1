"""The Avro bodies of the seed: schemaless, with exactly its schemas; query parameters carry what these lack.

publish, store   ttl (seconds, for every message), producer_id, epoch, sequence or sequences (1,2,5), fence
poll             isolation, wait_ms
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from typing import Any

import fastavro
import msgspec

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.api.requests import MessageToPublish, PollRequest, Producer, PublishRequest, RollbackDetail
from fairlead_messaging.server import json_bodies, validation
from fairlead_messaging.server.log.reader import MessagePage

PRODUCER_KEYS = ("epoch", "sequence", "sequences", "fence")
"""Query parameters that need ``producer_id``."""

_PUBLISH_REQUEST = fastavro.parse_schema(
    {
        "type": "record",
        "name": "PublishRequest",
        "fields": [
            {"name": "transactionWritePointer", "type": ["long", "null"]},
            {"name": "messages", "type": {"type": "array", "items": "bytes"}},
        ],
    }
)
_PUBLISH_RESPONSE = fastavro.parse_schema(
    {
        "type": "record",
        "name": "PublishResponse",
        "fields": [
            {"name": "transactionWritePointer", "type": ["long", "null"]},
            {"name": "startTimestamp", "type": "long"},
            {"name": "startSequenceId", "type": "int"},
            {"name": "endTimestamp", "type": "long"},
            {"name": "endSequenceId", "type": "int"},
        ],
    }
)
_CONSUME_REQUEST = fastavro.parse_schema(
    {
        "type": "record",
        "name": "ConsumeRequest",
        "fields": [
            {"name": "startFrom", "type": ["bytes", "long", "null"]},
            {"name": "inclusive", "type": "boolean", "default": True},
            {"name": "limit", "type": ["int", "null"]},
            {"name": "transaction", "type": ["bytes", "null"]},
        ],
    }
)
_CONSUME_RESPONSE = fastavro.parse_schema(
    {
        "type": "array",
        "items": {
            "type": "record",
            "name": "Message",
            "fields": [{"name": "id", "type": "bytes"}, {"name": "payload", "type": "bytes"}],
        },
    }
)


def publish_body(raw: bytes, query: Mapping[str, str], bytes_max: int) -> PublishRequest:
    """Raises: Refused with what is wrong, BodyTooLarge as ``validation.check_size``."""
    _check_count(raw, bytes_max)
    asked = _decode(raw, _PUBLISH_REQUEST)
    validation.check_size(len(asked["messages"]), bytes_max)
    messages: list[bytes | MessageToPublish] = list(asked["messages"])
    if "ttl" in query:
        messages = [MessageToPublish(payload=payload, ttl=query["ttl"]) for payload in asked["messages"]]
    producer = None
    if "producer_id" not in query:
        for key in PRODUCER_KEYS:
            if key in query:
                raise Refused(f"{key} belongs to a producer and needs producer_id", code="bad_producer")
    else:
        producer = _convert(
            {
                "id": query["producer_id"],
                "epoch": query.get("epoch", ""),
                "fence": query.get("fence", "false"),
                **({"sequence": query["sequence"]} if "sequence" in query else {}),
                **({"sequences": query["sequences"].split(",")} if "sequences" in query else {}),
            },
            Producer,
        )
    return PublishRequest(
        transactionWritePointer=asked["transactionWritePointer"], messages=messages, producer=producer
    )


def poll_body(raw: bytes, query: Mapping[str, str]) -> PollRequest:
    """Raises: Refused with what is wrong."""
    asked = _decode(raw, _CONSUME_REQUEST)
    if isinstance(asked["startFrom"], bytes):
        asked["startFrom"] = asked["startFrom"].hex()
    found = PollRequest(**asked)
    for key in ("isolation", "wait_ms"):
        if key in query:
            found = msgspec.structs.replace(found, **{key: getattr(_convert({key: query[key]}, PollRequest), key)})
    return found


def rollback_body(raw: bytes) -> RollbackDetail:
    """Raises: Refused with what is wrong."""
    asked = _decode(raw, _PUBLISH_RESPONSE)
    if asked["transactionWritePointer"] is None:
        raise Refused("transactionWritePointer must not be null", code="bad_rollback")
    return RollbackDetail(**asked)


def encode_rollback(detail: RollbackDetail) -> bytes:
    return _encode(msgspec.structs.asdict(detail), _PUBLISH_RESPONSE)


def encode_page(page: MessagePage) -> bytes:
    return _encode(
        [{"id": message_id, "payload": payload} for message_id, payload in zip(page.ids, page.payloads, strict=True)],
        _CONSUME_RESPONSE,
    )


def _check_count(raw: bytes, bytes_max: int) -> None:
    """Refuse too many messages before they become objects: an empty one takes only a byte of the body.

    It walks from block to block and stops at the limit; the decoder refuses invalid Avro.  Raises: BodyTooLarge as
    ``validation.check_size``.
    """
    if len(raw) * validation.MESSAGE_OVERHEAD_BYTES <= bytes_max:
        return
    is_null, at = _long(raw, 0)
    if not is_null:
        _, at = _long(raw, at)
    total = 0
    count, at = _long(raw, at)
    while count:
        total += abs(count)
        validation.check_size(total, bytes_max)
        if count < 0:  # the size of the block in bytes follows
            size, at = _long(raw, at)
            at += size
        else:
            for _ in range(count):
                size, at = _long(raw, at)
                at += size
        count, at = _long(raw, at)


def _long(raw: bytes, at: int) -> tuple[int, int]:
    """(number, position after it); 0 at the end of the bytes and for negative positions."""
    number = shift = 0
    while 0 <= at < len(raw) and shift < 70:
        byte = raw[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    return 0, at


def _decode(raw: bytes, schema: Any) -> dict[str, Any]:
    source = io.BytesIO(raw)
    try:
        found: Any = fastavro.schemaless_reader(source, schema)
    except (EOFError, IndexError, ValueError, TypeError, OverflowError, struct.error) as error:
        raise Refused(f"body is not Avro of the expected schema: {error}", code="bad_body") from None
    if source.tell() != len(raw):
        raise Refused("body has bytes after its Avro record", code="bad_body")
    return dict(found)


def _encode(value: Any, schema: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, schema, value)
    return target.getvalue()


def _convert(text: Mapping[str, object], kind: type[json_bodies.Asked]) -> json_bodies.Asked:
    """Convert query parameters to the types of a body."""
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(f"query: {error}", code="bad_query") from None
