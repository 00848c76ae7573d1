"""When a transaction ends by itself: what it may last, and how long it may hold up the readers of a topic.

    timeout    not renewed in time: every renewal moves it
    lifetime   no renewal moves it beyond: the longest transaction there may be
    hold_up    a topic's last stable offset stood still for it as long as the topic, or the service, allows

The earliest of the three ends it.  Payloads that are stored and not published yet hold up no reader, so a transaction
of hours that stores and publishes at its end is bounded by the first two alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fairlead_messaging.api.responses import EndedBy
from fairlead_messaging.server.transactions.transaction import Touched, Transaction

TIMEOUT_SECONDS_MAX = 600.0
LIFETIME_SECONDS_MAX = 86_400.0
HOLD_UP_SECONDS_MAX = 600.0
STEP_MS_MAX = 60_000
"""Clocks are set back by so much as a matter of course: a position so little ahead still says when it was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """Seconds; as the settings say."""

    timeout_seconds_max: float = TIMEOUT_SECONDS_MAX
    lifetime_seconds_max: float = LIFETIME_SECONDS_MAX
    hold_up_seconds_max: float = HOLD_UP_SECONDS_MAX


class Deadline(NamedTuple):
    """The last millisecond in which it may be written to and finished, and what ends it then."""

    at_ms: int
    ended_by: EndedBy


def lifetime_end_ms(found: Transaction, limits: TransactionLimits) -> int:
    """Beyond this no renewal carries it."""
    return found.started_ms + int(limits.lifetime_seconds_max * 1000)


def held_until_ms(found: Transaction, touched: Touched, limits: TransactionLimits, now_ms: int) -> int | None:
    """How long it may hold up the readers of one topic; None while it does not.

    Counted from its first message there that is not rolled back.  A position ahead of the clock says nothing about when
    that was published: it counts from the transaction's start then, which is never later.
    """
    if touched.first is None:
        return None
    since_ms = touched.first.timestamp if touched.first.timestamp <= now_ms + STEP_MS_MAX else found.started_ms
    return since_ms + int((touched.hold_up_seconds or limits.hold_up_seconds_max) * 1000)


def deadline(found: Transaction, limits: TransactionLimits, now_ms: int) -> Deadline:
    """Of a transaction in progress."""
    is_last = found.expires_ms >= lifetime_end_ms(found, limits)
    ends = [Deadline(found.expires_ms, "lifetime" if is_last else "timeout")]
    for touched in found.touched:
        held_until = held_until_ms(found, touched, limits, now_ms)
        if held_until is not None:
            ends.append(Deadline(held_until, "hold_up"))
    return min(ends)
