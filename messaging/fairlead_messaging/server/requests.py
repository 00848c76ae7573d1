"""The border: bytes to the requests of ``api``, and these to what the service understands.

Sizes were bounded before.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar, cast

import msgspec

from fairlead_messaging.api import responses
from fairlead_messaging.api.errors import Refused, TooLarge
from fairlead_messaging.api.message_id import (
    FIRST,
    SEQUENCE_MAX,
    TIMESTAMP_MAX,
    MessageId,
    Position,
    before,
    before_time,
    parse_hex,
)
from fairlead_messaging.api.requests import (
    CHANGE_CHARS_MAX,
    CHANGES_MAX,
    LIMIT_MAX,
    SPLITS_MAX,
    WAIT_MS_MAX,
    PollRequest,
    PublishRequest,
    RollbackDetail,
)
from fairlead_messaging.server.commands import Published
from fairlead_messaging.server.log.message import Message, Messages
from fairlead_messaging.server.log.reader import Page
from fairlead_messaging.server.log.topic import parse_ttl
from fairlead_messaging.server.producers.producer import Producer, make

MESSAGE_OVERHEAD_BYTES = 256
"""What a message takes in memory beside its payload, until it is in the store; nothing else bounds their number.

Measured with 3.9 million empty messages: 240.  They are one write, which all others wait for.
"""

_WHOLE = re.compile(r"[0-9]{1,19}")

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
        raise Refused(f"body: {error}", code="bad_body") from None


def publish_body(raw: bytes, bytes_max: int) -> PublishRequest:
    """Raises: Refused with what is wrong and where, TooLarge as ``check_size``."""
    # At most three commas for each message (between messages, within one, between sequence numbers) and some others.
    check_size(max(0, raw.count(b",") - 16) // 3, bytes_max)
    asked = decode(raw, PublishRequest)
    check_size(len(asked.messages or ()), bytes_max)
    return asked


def decode_properties(raw: bytes) -> object:
    """Topic properties: nothing, or any JSON (what it must hold is judged by the topic)."""
    return decode(raw, object) if raw.strip() else None


def messages(body: PublishRequest) -> Messages:
    """Raises: Refused for a bad ttl."""
    items = body.messages or []
    if all(kind is bytes for kind in set(map(type, items))):
        return cast("list[bytes]", items)
    return [
        item
        if isinstance(item, bytes)
        else Message(item.payload, parse_ttl(item.ttl, "message ttl") if item.ttl is not None else 0)
        for item in items
    ]


def check_size(count: int, bytes_max: int) -> int:
    """What ``count`` messages take beside their payloads, in bytes.

    Raises: TooLarge when that is more than ``bytes_max``, what a service at rest has for one request.
    """
    size = count * MESSAGE_OVERHEAD_BYTES
    if size > bytes_max:
        raise TooLarge(
            f"{count} messages take more than the {bytes_max} bytes there are for requests, at"
            f" {MESSAGE_OVERHEAD_BYTES} for each beside its payload; send them in several requests",
            code="too_many_messages",
        )
    return size


def producer(body: PublishRequest) -> Producer | None:
    """Raises: Refused when numbers and messages do not match."""
    given = body.producer
    if given is None:
        return None
    return make(
        producer_id=given.id,
        epoch=given.epoch,
        sequence=given.sequence,
        sequences=given.sequences,
        fence=given.fence,
        messages=len(body.messages or ()),
    )


def start(body: PollRequest) -> MessageId:
    """The exclusive start a poll asks for.

    Raises: Refused for ids and times that cannot be.
    """
    if body.startFrom is None:
        return FIRST
    if isinstance(body.startFrom, str):
        message_id = parse_hex(body.startFrom)
        return before(message_id) if body.inclusive else message_id
    if not 0 <= body.startFrom <= TIMESTAMP_MAX:
        raise Refused("startFrom: a time is milliseconds since 1970, not negative", code="bad_start")
    return before_time(body.startFrom if body.inclusive else body.startFrom + 1)


def bound(text: str | None, default: MessageId) -> MessageId:
    """A bulk bound; raises Refused when it is no id."""
    return parse_hex(text) if text else default


def whole(text: str, what: str) -> int:
    """A decimal of the query; raises Refused for anything else, however many digits."""
    if not _WHOLE.fullmatch(text):
        raise Refused(f"{what} must be a whole number", code=f"bad_{what}")
    return int(text)


def splits(asked: int | None) -> int:
    """Raises: Refused outside 1 to SPLITS_MAX; one range when nothing was said."""
    if asked is None:
        return 1
    if not 1 <= asked <= SPLITS_MAX:
        raise Refused(f"splits must be 1 to {SPLITS_MAX}", code="bad_splits")
    return asked


def limit(asked: int | None, maximum: int) -> int:
    """Raises: Refused when not positive; more than the service's maximum is cut to it."""
    if asked is None:
        return maximum
    if not 1 <= asked <= LIMIT_MAX:
        raise Refused(f"limit must be 1 to {LIMIT_MAX}", code="bad_limit")
    return min(asked, maximum)


def wait_ms(asked: int | None) -> int:
    """Raises: Refused when negative; more than the maximum is cut to it."""
    if asked is None:
        return 0
    if asked < 0:
        raise Refused("wait_ms must not be negative", code="bad_wait")
    return min(asked, WAIT_MS_MAX)


def encode(value: object) -> bytes:
    return _encoder.encode(value)


def encode_page(page: Page) -> bytes:
    return _encoder.encode(
        [
            responses.Message(message_id.hex(), payload)
            for message_id, payload in zip(page.ids, page.payloads, strict=True)
        ]
    )


def rollback_of(pointer: int, answer: Published) -> RollbackDetail:
    """What a transactional publish answers, and a rollback sends back as it is."""
    assert answer.first is not None and answer.last is not None
    return RollbackDetail(
        transactionWritePointer=pointer,
        startTimestamp=answer.first.timestamp,
        startSequenceId=answer.first.sequence,
        endTimestamp=answer.last.timestamp,
        endSequenceId=answer.last.sequence,
    )


def rollback_range(body: RollbackDetail) -> tuple[Position, Position]:
    """Raises: Refused for positions that cannot be."""
    first = Position(body.startTimestamp, body.startSequenceId)
    last = Position(body.endTimestamp, body.endSequenceId)
    for position in (first, last):
        if not (0 <= position.timestamp <= TIMESTAMP_MAX and 0 <= position.sequence <= SEQUENCE_MAX):
            raise Refused("this is not what a publish answered", code="bad_rollback")
    return first, last


def published_of(answer: Published) -> responses.PublishedByProducer:
    """For a producer: the sequences stored now and those known from before."""
    return responses.PublishedByProducer(producer=responses.Published(stored=answer.stored, known=answer.known))


def timeout(seconds: float | None, maximum: float) -> float | None:
    """Raises: Refused outside what a transaction may ask for between two renewals."""
    if seconds is not None and not 0 < seconds <= maximum:
        raise Refused(
            f"timeout must be more than 0 and at most {maximum:g} seconds ([transactions] timeout_seconds_max); "
            "a longer transaction is renewed (POST …/renew)",
            code="bad_timeout",
        )
    return seconds


def changes(asked: list[str]) -> list[str]:
    """Raises: Refused when there are too many or too long keys."""
    if len(asked) > CHANGES_MAX or any(len(change) > CHANGE_CHARS_MAX for change in asked):
        raise Refused(f"changes: at most {CHANGES_MAX} keys of {CHANGE_CHARS_MAX} characters", code="bad_changes")
    return asked
