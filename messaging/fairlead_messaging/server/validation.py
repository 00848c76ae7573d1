"""Validates requests beyond their shape: limits, times, ids and numbers.

The size of bodies has been checked before.
"""

from __future__ import annotations

import re
from typing import cast

from fairlead_messaging.api.errors import BodyTooLarge, Refused
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
from fairlead_messaging.server.log.rows import LoggedMessage, Messages
from fairlead_messaging.server.log.topic import parse_ttl
from fairlead_messaging.server.producers import NumberedProducer, make

MESSAGE_OVERHEAD_BYTES = 256
"""The memory of a message besides its payload until it is stored, which limits the number of messages in a request.

Measured with 3.9 million empty messages: 240 bytes.
"""

_WHOLE = re.compile(r"[0-9]{1,19}")


def messages(body: PublishRequest) -> Messages:
    """Raises: Refused for a bad ttl."""
    items = body.messages or []
    if all(kind is bytes for kind in set(map(type, items))):
        return cast("list[bytes]", items)
    return [
        item
        if isinstance(item, bytes)
        else LoggedMessage(item.payload, parse_ttl(item.ttl, "message ttl") if item.ttl is not None else 0)
        for item in items
    ]


def check_size(count: int, bytes_max: int) -> int:
    """The memory of ``count`` messages besides their payloads, in bytes.

    Raises: BodyTooLarge if that exceeds ``bytes_max``, which an idle service has for one request.
    """
    size = count * MESSAGE_OVERHEAD_BYTES
    if size > bytes_max:
        raise BodyTooLarge(
            f"{count} messages need more than the {bytes_max} bytes that requests may take, at"
            f" {MESSAGE_OVERHEAD_BYTES} for each besides its payload; send them in several requests",
            code="too_many_messages",
        )
    return size


def producer(body: PublishRequest) -> NumberedProducer | None:
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
    """The exclusive start of a poll.

    Raises: Refused for invalid ids and times.
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
    """A bulk bound.  Raises: Refused unless it is an id."""
    return parse_hex(text) if text else default


def whole(text: str, what: str) -> int:
    """A decimal number of a query.  Raises: Refused for anything else, however many digits."""
    if not _WHOLE.fullmatch(text):
        raise Refused(f"{what} must be a whole number", code=f"bad_{what}")
    return int(text)


def splits(asked: int | None) -> int:
    """The number of ranges, by default one.  Raises: Refused outside 1 to SPLITS_MAX."""
    if asked is None:
        return 1
    if not 1 <= asked <= SPLITS_MAX:
        raise Refused(f"splits must be 1 to {SPLITS_MAX}", code="bad_splits")
    return asked


def limit(asked: int | None, maximum: int) -> int:
    """The limit, reduced to the maximum of the service.  Raises: Refused unless it is positive."""
    if asked is None:
        return maximum
    if not 1 <= asked <= LIMIT_MAX:
        raise Refused(f"limit must be 1 to {LIMIT_MAX}", code="bad_limit")
    return min(asked, maximum)


def wait_ms(asked: int | None) -> int:
    """The wait, reduced to the maximum.  Raises: Refused if it is negative."""
    if asked is None:
        return 0
    if asked < 0:
        raise Refused("wait_ms must not be negative", code="bad_wait")
    return min(asked, WAIT_MS_MAX)


def rollback_range(body: RollbackDetail) -> tuple[Position, Position]:
    """Raises: Refused for invalid positions."""
    first = Position(body.startTimestamp, body.startSequenceId)
    last = Position(body.endTimestamp, body.endSequenceId)
    for position in (first, last):
        if not (0 <= position.timestamp <= TIMESTAMP_MAX and 0 <= position.sequence <= SEQUENCE_MAX):
            raise Refused("this is not the answer to a publish", code="bad_rollback")
    return first, last


def timeout(seconds: float | None, maximum: float) -> float | None:
    """Raises: Refused for a timeout that no transaction may have."""
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
