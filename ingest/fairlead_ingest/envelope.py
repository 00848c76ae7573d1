"""From a message's payload to the columns of a row, or to the reason why not.

The payload is the JSON text of an upstream message. The body and both property maps are taken over as the text they
were, never decoded and encoded again, so a number keeps its digits and a string stays a JSON string. A body that is no
JSON text arrives as ``bodyBase64`` and becomes the JSON text ``{"bodyBase64": "…"}``, so that it is in the one column.

One bad payload costs its own row, never its page. Limits: integers must fit their columns; text must be UTF-8.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import pyarrow as pa

_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Moment = Annotated[datetime.datetime, msgspec.Meta(tz=True)]
_ABSENT = msgspec.Raw(b"")

TIMESTAMP = pa.timestamp("us", tz="UTC")
# What a decoded page looks like, in the contract's order; ``_payload`` only where ``_error`` is.
PAGE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("node", pa.string()),
        ("epoch", pa.int64()),
        ("stream", pa.string()),
        ("sequence", pa.int64()),
        ("source", pa.string()),
        ("priority", pa.int32()),
        ("enqueued_at", TIMESTAMP),
        ("properties", pa.string()),
        ("system_properties", pa.string()),
        ("body", pa.string()),
        ("_topic", pa.string()),
        ("_id", pa.string()),
        ("_published_at", TIMESTAMP),
        ("_error", pa.string()),
        ("_payload", pa.binary()),
    ]
)
RAW_SCHEMA = pa.schema(
    [("payload", pa.binary()), ("_topic", pa.string()), ("_id", pa.string()), ("_published_at", TIMESTAMP)]
)
_FIELDS = 11


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """An upstream message as it lies in its topic; what identifies it is required, what describes it may be absent."""

    id: str
    node: str
    epoch: _Long
    stream: str
    sequence: _Long
    source: str | None = None
    priority: _Int | None = None
    enqueued_at: _Moment | None = None
    properties: msgspec.Raw = _ABSENT
    systemProperties: msgspec.Raw = _ABSENT
    body: msgspec.Raw = _ABSENT
    bodyBase64: str | None = None


_decode = msgspec.json.Decoder(Envelope).decode


class Rejected(Exception):
    """This payload is no upstream message; ``str()`` is the reason with field path or byte position."""


def row(payload: bytes) -> tuple[Any, ...]:
    """The eleven envelope columns of one payload. Raises ``Rejected``."""
    try:
        message = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected(str(error)) from None
    if message.bodyBase64 is not None:
        body = b'{"bodyBase64": ' + msgspec.json.encode(message.bodyBase64) + b"}"
    else:
        body = bytes(message.body)
        if not body:
            raise Rejected("Object missing required field `body` (or `bodyBase64`)")
    return (
        message.id,
        message.node,
        message.epoch,
        message.stream,
        message.sequence,
        message.source,
        message.priority,
        message.enqueued_at,
        _map_text(message.properties, "properties"),
        _map_text(message.systemProperties, "systemProperties"),
        body,
    )


def page(topic: str, ids: pa.Array, moments: pa.Array, payloads: pa.Array) -> pa.RecordBatch:
    """A page of messages as rows of ``PAGE_SCHEMA``, one for each message and in their order."""
    rows: list[tuple[Any, ...]] = []
    errors: list[str | None] = []
    kept: list[bytes | None] = []
    nothing = (None,) * _FIELDS
    for payload in payloads.to_pylist():
        try:
            rows.append(row(payload))
            errors.append(None)
            kept.append(None)
        except Rejected as reason:
            rows.append(nothing)
            errors.append(str(reason))
            kept.append(payload)
    try:
        arrays = _arrays(rows)
    except (pa.ArrowException, UnicodeError):
        # Some text in the page is no UTF-8: find those rows one by one; a clean page never comes here.
        for index, values in enumerate(rows):
            try:
                _arrays([values])
            except (pa.ArrowException, UnicodeError) as error:
                rows[index], errors[index] = nothing, f"text is not UTF-8: {error}"
                kept[index] = payloads[index].as_py()
        arrays = _arrays(rows)
    return pa.RecordBatch.from_arrays(
        [
            *arrays,
            _constant(topic, len(rows)),
            hex_ids(ids),
            moments.cast(TIMESTAMP),
            pa.array(errors, pa.string()),
            pa.array(kept, pa.binary()),
        ],
        schema=PAGE_SCHEMA,
    )


def raw_page(topic: str, ids: pa.Array, moments: pa.Array, payloads: pa.Array) -> pa.RecordBatch:
    """A page of messages as rows of ``RAW_SCHEMA``: the payload as it is."""
    return pa.RecordBatch.from_arrays(
        [payloads.cast(pa.binary()), _constant(topic, len(payloads)), hex_ids(ids), moments.cast(TIMESTAMP)],
        schema=RAW_SCHEMA,
    )


def payload_again(values: dict[str, Any]) -> bytes:
    """The upstream message of a decoded row, as JSON: the same content, for a dead letter found after decoding."""
    envelope: dict[str, Any] = {
        name: values[name] for name in ("id", "node", "epoch", "stream", "sequence", "source", "priority")
    }
    envelope["enqueued_at"] = values["enqueued_at"]
    for name, column in (("properties", "properties"), ("systemProperties", "system_properties"), ("body", "body")):
        text = values[column]
        envelope[name] = msgspec.Raw(text.encode()) if text is not None else None
    return msgspec.json.encode(envelope)


def hex_ids(ids: pa.Array) -> pa.Array:
    """Binary message ids as lower-case hex text."""
    return pa.array([value.hex() for value in ids.to_pylist()], pa.string())


def _arrays(rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
    columns = list(zip(*rows, strict=True)) or [()] * _FIELDS
    arrays = []
    for field, column in zip(list(PAGE_SCHEMA)[:_FIELDS], columns, strict=True):
        # Texts taken over from JSON are still bytes: as binary first, so that the cast checks them as UTF-8.
        is_bytes = field.name in ("properties", "system_properties", "body")
        arrays.append(pa.array(column, pa.binary()).cast(pa.string()) if is_bytes else pa.array(column, field.type))
    return arrays


def _constant(value: str, length: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), length)


def _map_text(raw: msgspec.Raw, name: str) -> bytes | None:
    text = bytes(raw)
    if not text or text == b"null":
        return None
    if not text.startswith(b"{"):
        raise Rejected(f"Expected `object | null`, got something else - at `$.{name}`")
    return text
