"""What each outcome of a delivery makes of a subscription's record: values in, values out."""

from __future__ import annotations

import msgspec

from fairlead_messaging.server.subscriptions import effective_policy
from fairlead_messaging.server.subscriptions.subscription import GivenUpMessage, SubscriptionRecord
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy, Uniform

UNDELIVERABLE_MAX = 100
"""Messages given up whose dead letters cannot be written yet; at so many the subscription waits for its topic."""
REASON_CHARS_MAX = 200
LETTER_RETRY_MS = 5_000
"""How often dead letters that could not be written are tried again."""


def failed(
    record: SubscriptionRecord,
    policy: DeliveryPolicy,
    reason: str,
    now_ms: int,
    *,
    uniform: Uniform,
    retry_after_seconds: float | None,
) -> SubscriptionRecord | None:
    """The record with its next attempt; None when the policy allows no more."""
    wait = delivery_policy.next_delay(
        policy,
        record.attempts,
        uniform=uniform,
        waited_seconds=record.waited_seconds,
        previous_seconds=record.previous_seconds,
        retry_after_seconds=retry_after_seconds,
    )
    if wait is None:
        return None
    return msgspec.structs.replace(
        record,
        attempts=record.attempts + 1,
        waited_seconds=record.waited_seconds + wait.seconds,
        previous_seconds=wait.seconds,
        next_attempt_ms=now_ms + int(wait.seconds * 1000),
        last_error=reason,
        attempts_under=effective_policy.digest(policy),
    )


def under(record: SubscriptionRecord, policy: str) -> SubscriptionRecord:
    """The record as it stands under the policy with this digest: attempts counted under another begin anew."""
    if not record.attempts or record.attempts_under in ("", policy):
        return record
    return msgspec.structs.replace(record, attempts=0, waited_seconds=0.0, previous_seconds=0.0, next_attempt_ms=0)


def within_its_wait(record: SubscriptionRecord, now_ms: int) -> SubscriptionRecord:
    """The record with a next attempt no further away than its wait: after a clock stepped back it would be."""
    latest_ms = now_ms + max(int(record.previous_seconds * 1000), LETTER_RETRY_MS)
    return record if record.next_attempt_ms <= latest_ms else msgspec.structs.replace(record, next_attempt_ms=latest_ms)


def moved(
    record: SubscriptionRecord,
    position: str,
    *,
    delivered: int = 0,
    dead: int = 0,
    dropped: int = 0,
    expired: int = 0,
    reason: str = "",
) -> SubscriptionRecord:
    """The record after a message was dealt with; attempts begin anew.  ``reason``: why it was given up."""
    return msgspec.structs.replace(
        record,
        position=position,
        attempts=0,
        waited_seconds=0.0,
        previous_seconds=0.0,
        next_attempt_ms=0,
        last_error=reason or record.last_error,
        delivered=record.delivered + delivered,
        dead_lettered=record.dead_lettered + dead,
        dropped=record.dropped + dropped,
        expired=record.expired + expired,
    )


def set_aside(
    record: SubscriptionRecord, position: str, *, expired: int, reason: str, letter_error: str
) -> SubscriptionRecord | None:
    """The record with a message given up whose dead letter cannot be written now; None when too many wait already."""
    if len(record.undeliverable) >= UNDELIVERABLE_MAX:
        return None
    after = moved(record, position, expired=expired, reason=reason)
    waiting = (*record.undeliverable, GivenUpMessage(position, reason[:REASON_CHARS_MAX]))
    return msgspec.structs.replace(after, undeliverable=waiting, dead_letter_error=letter_error[:REASON_CHARS_MAX])


def resolved(
    record: SubscriptionRecord, letter: GivenUpMessage, *, dead: int = 0, dropped: int = 0, expired: int = 0
) -> SubscriptionRecord:
    """The record after one of those set aside was dealt with."""
    left = tuple(each for each in record.undeliverable if each.id != letter.id)
    return msgspec.structs.replace(
        record,
        undeliverable=left,
        dead_letter_error=record.dead_letter_error if left else "",
        dead_lettered=record.dead_lettered + dead,
        dropped=record.dropped + dropped,
        expired=record.expired + expired,
    )


def waits_for_letters(record: SubscriptionRecord, reason: str, now_ms: int) -> SubscriptionRecord:
    """The record when a message can neither be delivered nor set aside: it stays, and is tried again later."""
    return msgspec.structs.replace(
        record, next_attempt_ms=now_ms + LETTER_RETRY_MS, dead_letter_error=reason[:REASON_CHARS_MAX]
    )
