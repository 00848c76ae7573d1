"""Reads the columns of a row from a message's payload, or the reason why it cannot be read.

The payload is the JSON text of an upstream message. The body and both property maps are kept as the original text,
never decoded and encoded again, so a number keeps its digits and a string stays a JSON string. A body that is not JSON
arrives as ``bodyBase64`` and becomes the JSON text ``{"bodyBase64": "…"}`` in the same column.

A bad payload affects only its own row, not its page. Limits: integers must fit their columns; text must be UTF-8; times
must be in the years 1 to 9999 (UTC), because Python cannot represent others; arrays and objects may be nested
``NESTING_MAX`` levels deep, far below the limits of all JSON readers involved.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.rows import gap_record, unreadable
from fairlead_ingest.rows.contract import BodyJudge, wrong_text

_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Moment = Annotated[datetime.datetime, msgspec.Meta(tz=True)]
_ABSENT = msgspec.Raw(b"")

NESTING_MAX = 500
TIMESTAMP = pa.timestamp("us", tz="UTC")
# Years 1 to 9999 in microseconds since 1970.
MICROS_MIN, MICROS_MAX = -62_135_596_800_000_000, 253_402_300_799_999_999
# The columns of a decoded page, in the documented order; ``_payload`` is set only with ``_error``.
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
# Two more columns for typed columns, used in ``transforms``: the text to read them from, null for the body itself, and
# the columns that the body does not fit, null if it fits.
TYPED, MISFIT = "_typed", "_misfit"
TYPED_PAGE_SCHEMA = pa.schema([*PAGE_SCHEMA, (TYPED, pa.string()), (MISFIT, pa.string())])
RAW_SCHEMA = pa.schema(
    [("payload", pa.binary()), ("_topic", pa.string()), ("_id", pa.string()), ("_published_at", TIMESTAMP)]
)

SIFTED_RAW_SCHEMA = pa.schema([*RAW_SCHEMA, ("_error", pa.string()), ("_payload", pa.binary())])


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """An upstream message as stored in its topic; fields that identify it are required, others are optional."""

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
_TOO_DEEP = f"nested deeper than {NESTING_MAX} levels"
_NO_TIME = "`enqueued_at` is outside the years 1 to 9999 in UTC"
# Brackets outside strings; a string is matched as a whole.
_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)
_NO_MAP = "Expected `object | null`, got something else - at `$.{}`"
_NO_BODY = "Object missing required field `body` (or `bodyBase64`)"
_NOTHING = (None,) * len(Envelope.__struct_fields__)


class Rejected(Exception):
    """The payload is not an upstream message; ``str()`` is the reason with field path or byte position."""


def page(
    topic: str,
    ids: pa.Array,
    moments: pa.Array,
    payloads: pa.Array,
    *,
    judge: BodyJudge | None = None,
    set_aside: Mapping[str, str] | None = None,
) -> pa.RecordBatch:
    """Decode a page of messages to rows of ``PAGE_SCHEMA``, one for each message, in order.

    With ``judge``, rows have ``TYPED_PAGE_SCHEMA``, with its verdict on each body. ``set_aside`` maps ids (hex) of
    messages that must become dead letters to the reason.
    """
    plain: list[bytes] = payloads.to_pylist()
    names = hex_ids(ids)
    reasons = [set_aside.get(name) for name in names.to_pylist()] if set_aside else []
    errors: list[str | None] = [None] * len(plain)
    try:
        if any(reasons) or any(map(is_too_deep, plain)):
            raise Rejected
        arrays = _arrays(list(map(_decode, plain)))
    except (msgspec.MsgspecError, UnicodeError, RecursionError, pa.ArrowException, Rejected):
        arrays, errors = _one_by_one(plain, reasons)
    kept = [payload if error is not None else None for payload, error in zip(plain, errors, strict=True)]
    return pa.RecordBatch.from_arrays(
        [
            *arrays,
            _constant(topic, len(plain)),
            names,
            moments.cast(TIMESTAMP),
            pa.array(errors, pa.string()),
            pa.array(kept, pa.binary()),
            *(_verdicts(topic, arrays, judge) if judge is not None else ()),
        ],
        schema=PAGE_SCHEMA if judge is None else TYPED_PAGE_SCHEMA,
    )


def raw_page(
    topic: str,
    ids: pa.Array,
    moments: pa.Array,
    payloads: pa.Array,
    *,
    set_aside: Mapping[str, str] | None = None,
) -> pa.RecordBatch:
    """A page of messages as rows of ``RAW_SCHEMA``, with the payload unchanged.

    With ``set_aside``, rows have ``SIFTED_RAW_SCHEMA``, and the messages it names have their reason and payload there.
    """
    if set_aside is not None:
        names = hex_ids(ids)
        reasons = [set_aside.get(name) for name in names.to_pylist()]
        plain = payloads.to_pylist()
        bodies = [payload if reason is None else None for payload, reason in zip(plain, reasons, strict=True)]
        kept = [None if reason is None else payload for payload, reason in zip(plain, reasons, strict=True)]
        known = [pa.array(bodies, pa.binary()), _constant(topic, len(plain)), names, moments.cast(TIMESTAMP)]
        sifted = [pa.array(reasons, pa.string()), pa.array(kept, pa.binary())]
        return pa.RecordBatch.from_arrays([*known, *sifted], schema=SIFTED_RAW_SCHEMA)
    return pa.RecordBatch.from_arrays(
        [payloads.cast(pa.binary()), _constant(topic, len(payloads)), hex_ids(ids), moments.cast(TIMESTAMP)],
        schema=RAW_SCHEMA,
    )


# The columns from which ``payload_again`` restores a payload.
LETTER_COLUMNS = (
    "id", "node", "epoch", "stream", "sequence", "source", "priority", "enqueued_at", "properties",
    "system_properties", "body", "_error", "_payload",
)  # fmt: skip


def payload_again(values: dict[str, Any]) -> bytes:
    """Restore the upstream message of a decoded row as JSON, for a dead letter found after decoding."""
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


def _verdicts(topic: str, arrays: Sequence[pa.Array], judge: BodyJudge) -> tuple[pa.Array, pa.Array]:
    sources, properties, bodies = arrays[5], arrays[8], arrays[10]
    given = (sources.to_pylist(), properties.to_pylist()) if judge.is_routed else ((), ())
    looked = judge.verdicts(topic, bodies.cast(pa.binary()).to_pylist(), *given)
    texts = pa.array([verdict and verdict.text for verdict in looked], pa.string())
    wrong = pa.array(
        [None if verdict is None or verdict.fits else wrong_text(verdict) for verdict in looked], pa.string()
    )
    # A contract describes measurements of devices; gap records come from the agent itself.
    is_gap = gap_record.among(sources, bodies)
    return pc.if_else(is_gap, gap_record.NO_BODY, texts), pc.if_else(is_gap, pa.scalar(None, pa.string()), wrong)


def is_too_deep(payload: bytes) -> bool:
    """Whether a payload has more than ``NESTING_MAX`` levels of arrays and objects."""
    # Every bracket needs a closing one, so a short payload cannot be too deep; an unclosed one is refused as JSON.
    if len(payload) <= 2 * NESTING_MAX or payload.count(b"[") + payload.count(b"{") <= NESTING_MAX:
        return False
    depth = deepest = 0
    for found in _BRACKETS.finditer(payload):
        depth += (found.lastindex == 1) - (found.lastindex == 2)
        deepest = max(deepest, depth)
    return deepest > NESTING_MAX


def _one_by_one(payloads: Sequence[bytes], reasons: Sequence[str | None]) -> tuple[list[pa.Array], list[str | None]]:
    """Decode each payload of a page separately, so that only the bad ones are rejected."""
    messages: list[Envelope | None] = []
    errors: list[str | None] = []
    for payload, reason in zip(payloads, reasons or [None] * len(payloads), strict=True):
        try:
            if reason is not None:
                raise Rejected(reason)
            if is_too_deep(payload):
                raise Rejected(_TOO_DEEP)
            messages.append(_checked(_decode(payload)))
            errors.append(None)
        except Rejected as error:
            messages.append(None)
            errors.append(str(error))
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            messages.append(None)
            errors.append(unreadable.reason(payload, error))
    return _arrays(messages), errors


def _checked(message: Envelope) -> Envelope:
    """Return the message if ``_arrays`` will accept it, else raise ``Rejected``."""
    for name in ("properties", "systemProperties"):
        text = bytes(getattr(message, name)).decode()
        if text and text != "null" and not text.startswith("{"):
            raise Rejected(_NO_MAP.format(name))
    if not bytes(message.body).decode() and message.bodyBase64 is None:
        raise Rejected(_NO_BODY)
    if message.enqueued_at is not None and not is_in_range(message.enqueued_at):
        raise Rejected(_NO_TIME)
    return message


def is_in_range(moment: datetime.datetime) -> bool:
    """Whether a time is in the years 1 to 9999 in UTC."""
    try:
        moment.astimezone(datetime.UTC)
    except OverflowError:
        return False
    return True


def _arrays(messages: Sequence[Envelope | None]) -> list[pa.Array]:
    """The eleven envelope columns. Raises ``Rejected`` or Arrow's errors if a message does not fit them."""
    rows = [_NOTHING if message is None else msgspec.structs.astuple(message) for message in messages]
    columns = list(zip(*rows, strict=True)) or [()] * len(_NOTHING)
    plain = [pa.array(column, field.type) for column, field in zip(columns[:8], PAGE_SCHEMA, strict=False)]
    times = pc.min_max(plain[7].cast(pa.int64()))
    if times["min"].is_valid and not MICROS_MIN <= times["min"].as_py() <= times["max"].as_py() <= MICROS_MAX:
        raise Rejected(_NO_TIME)
    properties = _map_texts(columns[8], "properties")
    system_properties = _map_texts(columns[9], "systemProperties")
    return [*plain, properties, system_properties, _bodies(columns[10], columns[11])]


def _map_texts(column: Sequence[msgspec.Raw | None], name: str) -> pa.Array:
    texts = _texts([None if raw is None else bytes(raw) or None for raw in column])
    texts = pc.if_else(pc.equal(texts, "null"), None, texts)
    # ``any`` skips nulls, which are messages without properties.
    if pc.any(pc.invert(pc.starts_with(texts, "{"))).as_py():
        raise Rejected(_NO_MAP.format(name))
    return texts


def _bodies(bodies: Sequence[msgspec.Raw | None], base64s: Sequence[str | None]) -> pa.Array:
    texts = [None if raw is None else bytes(raw) for raw in bodies]
    for index, base64 in enumerate(base64s):
        if base64 is not None:
            texts[index] = b'{"bodyBase64": ' + msgspec.json.encode(base64) + b"}"
        elif texts[index] == b"":
            raise Rejected(_NO_BODY)
    return _texts(texts)


def _texts(column: list[bytes | None]) -> pa.Array:
    # First as binary, so that the cast checks the raw JSON text for valid UTF-8.
    return pa.array(column, pa.binary()).cast(pa.string())


def _constant(value: str, length: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), length)
