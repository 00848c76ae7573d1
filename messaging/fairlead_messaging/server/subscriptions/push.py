"""The script of a push subscription: what to do in which order, and what must be durable before what.

    Load the record ─→ try waiting dead letters ─→ Read a page ─→ for each message
        Send ─2xx→ Save the position behind it                        (delivered)
          ├─try later→ Save attempt and time, Pause, Send again
          └─final→ StoreDeadLetter, then Save the position            (dead-lettered)
                     └─refused→ Save it as undeliverable, continue; tried again every few seconds

Every round begins with the durable record and the policy in effect.  The position moves only with a durable outcome, so
after any failure a message may come twice at worst.  The script yields steps and is sent their results or errors;
``io.push_performer`` performs them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import msgspec

from fairlead_messaging.api.errors import Conflict, MessagingError, NotFound, OverQuota, Unavailable
from fairlead_messaging.api.message_id import FIRST, MessageId, parse_hex
from fairlead_messaging.server.subscriptions import subscription
from fairlead_messaging.server.subscriptions.push_page import PushItem, PushPage
from fairlead_messaging.server.subscriptions.subscription import GivenUpMessage, SubscriptionRecord
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy, Uniform

# --- How each outcome changes the record of a subscription; pure functions.

UNDELIVERABLE_MAX = 100
"""How many messages may be set aside because their dead letters cannot be written; then the subscription waits."""
REASON_CHARS_MAX = 200
LETTER_RETRY_MS = 5_000
"""How often dead letters that could not be written are tried again."""


def attempt_failed(
    record: SubscriptionRecord,
    policy: DeliveryPolicy,
    reason: str,
    now_ms: int,
    *,
    uniform: Uniform,
    retry_after_seconds: float | None,
) -> SubscriptionRecord | None:
    """The record with its next attempt; None if the policy allows no more."""
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
        attempts_under=subscription.policy_digest(policy),
    )


def under_policy(record: SubscriptionRecord, policy: str) -> SubscriptionRecord:
    """The record under the policy with this digest: attempts counted under another policy are reset."""
    if not record.attempts or record.attempts_under in ("", policy):
        return record
    return msgspec.structs.replace(record, attempts=0, waited_seconds=0.0, previous_seconds=0.0, next_attempt_ms=0)


def with_bounded_wait(record: SubscriptionRecord, now_ms: int) -> SubscriptionRecord:
    """The record with a next attempt no further away than its wait, as it may be after the clock was set back."""
    latest_ms = now_ms + max(int(record.previous_seconds * 1000), LETTER_RETRY_MS)
    return record if record.next_attempt_ms <= latest_ms else msgspec.structs.replace(record, next_attempt_ms=latest_ms)


def moved_to(
    record: SubscriptionRecord,
    position: str,
    *,
    delivered: int = 0,
    dead: int = 0,
    dropped: int = 0,
    expired: int = 0,
    reason: str = "",
) -> SubscriptionRecord:
    """The record after a message was handled; attempts are reset.  ``reason``: why it was given up."""
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
    """The record with a given-up message whose dead letter cannot be written now; None if too many wait already."""
    if len(record.undeliverable) >= UNDELIVERABLE_MAX:
        return None
    after = moved_to(record, position, expired=expired, reason=reason)
    waiting = (*record.undeliverable, GivenUpMessage(position, reason[:REASON_CHARS_MAX]))
    return msgspec.structs.replace(after, undeliverable=waiting, dead_letter_error=letter_error[:REASON_CHARS_MAX])


def resolved(
    record: SubscriptionRecord, letter: GivenUpMessage, *, dead: int = 0, dropped: int = 0, expired: int = 0
) -> SubscriptionRecord:
    """The record after one of the messages that were set aside was handled."""
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
    """The record if a message can neither be delivered nor set aside: it stays, and is tried again later."""
    return msgspec.structs.replace(
        record, next_attempt_ms=now_ms + LETTER_RETRY_MS, dead_letter_error=reason[:REASON_CHARS_MAX]
    )


TROUBLE_SECONDS = 5.0
"""The pause after a failure that does not say when to retry."""
IDLE_WAIT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Load:
    """Answers Loaded; NotFound if the subscription or its topic is gone."""


class Loaded(NamedTuple):
    """The record, the current generation of the topic, and the effective policy."""

    record: SubscriptionRecord
    generation: int
    policy: DeliveryPolicy


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Answers a PushPage after this id of this generation, waiting for messages."""

    after: MessageId
    generation: int
    wait_ms: int


@dataclass(frozen=True, slots=True)
class Find:
    """Answers the PushItem with this id, None if it has expired."""

    id: MessageId
    generation: int


@dataclass(frozen=True, slots=True)
class Send:
    """Answers Sent."""

    url: str
    item: PushItem


@dataclass(frozen=True, slots=True)
class PushResult:
    """``error`` is "" if it was delivered; ``final``: a repeat is pointless; and the wait requested by the endpoint."""

    error: str = ""
    final: bool = False
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StoreDeadLetter:
    """Store the message in the dead letter topic; idempotent."""

    item: PushItem
    topic: str


@dataclass(frozen=True, slots=True)
class Save:
    """Make the record durable.

    Conflict if the subscription was replaced or its policy changed, NotFound if it is gone.
    """

    record: SubscriptionRecord
    generation: int
    policy: str


@dataclass(frozen=True, slots=True)
class PushPause:
    """Do nothing until that time: the wait of the policy."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class BackOff:
    """Do nothing for that long, whatever the clock does, because something other than the endpoint failed."""

    seconds: float
    reason: str


def version_of(record: SubscriptionRecord, policy: DeliveryPolicy) -> str:
    """Changes if a running subscription has to restart: it was replaced, or another policy is in effect."""
    return f"{record.revision}/{subscription.policy_digest(policy)}"


Step = Load | ReadPage | Find | Send | StoreDeadLetter | Save | PushPause | BackOff
Script = Generator[Step, Any, None]


class Push:
    """One subscription.  ``now_ms`` is the clock, ``random`` spreads retries."""

    def __init__(self, now_ms: Callable[[], int], random: Random) -> None:
        self._now_ms = now_ms
        self._random = random
        self._generation: int | None = None
        self._letters_due_ms = 0
        self._policy = DeliveryPolicy()
        self._digest = ""
        self.version = ""
        """``version_of`` the subscription and its policy when they were last loaded."""

    def run(self) -> Script:
        """Ends once the subscription, or the generation of the topic with which it began, is gone."""
        while True:
            try:
                yield from self._round()
            except NotFound:
                return
            except Conflict:
                continue  # replaced meanwhile, or another policy is in effect: load the record again
            except Unavailable as error:
                yield BackOff(error.retry_after_seconds, error.message)
            except MessagingError as error:
                yield BackOff(TROUBLE_SECONDS, error.message)

    def _round(self) -> Script:
        loaded: Loaded = yield Load()
        generation, self._policy = loaded.generation, loaded.policy
        self._digest = subscription.policy_digest(loaded.policy)
        self.version = version_of(loaded.record, loaded.policy)
        record = under_policy(loaded.record, self._digest)
        if self._generation is None:
            self._generation = generation
        elif generation != self._generation:
            raise NotFound("the topic was deleted and created again", code="subscription_not_found")
        record = yield from self._store_waiting_letters(record)
        after = record.after
        wait_ms = IDLE_WAIT_MS
        if record.undeliverable:
            wait_ms = min(wait_ms, max(0, self._letters_due_ms - self._now_ms()))
        page: PushPage = yield ReadPage(after, generation, wait_ms)
        for item in page.items:
            record = yield from self._deliver(record, item)
        if page.end > (bytes.fromhex(record.position) if record.position else FIRST):
            yield from self._save(moved_to(record, page.end.hex(), expired=page.expired))

    def _save(self, record: SubscriptionRecord) -> Generator[Step, Any, SubscriptionRecord]:
        assert self._generation is not None
        yield Save(record, self._generation, self._digest)
        return record

    def _deliver(self, record: SubscriptionRecord, item: PushItem) -> Generator[Step, Any, SubscriptionRecord]:
        """Deliver a message; returns the durable record after it."""
        position = item.id.hex()
        uniform = delivery_policy.generator_of(self._policy, self._random)
        while True:
            record = yield from self._store_waiting_letters(record)
            now_ms = self._now_ms()
            if now_ms > item.expires_ms:
                return (yield from self._save(moved_to(record, position, expired=item.expired + 1)))
            record = with_bounded_wait(record, now_ms)
            if record.next_attempt_ms > now_ms:
                until_ms = min(record.next_attempt_ms, item.expires_ms + 1)
                yield PushPause(min(until_ms, self._letters_due_ms) if record.undeliverable else until_ms)
                continue
            sent: PushResult = yield Send(record.url, item)
            if not sent.error:
                return (yield from self._save(moved_to(record, position, delivered=1, expired=item.expired)))
            again = None
            if not sent.final:
                again = attempt_failed(
                    record,
                    self._policy,
                    sent.error,
                    self._now_ms(),
                    uniform=uniform,
                    retry_after_seconds=sent.retry_after_seconds,
                )
            if again is None:
                after = yield from self._give_up(record, item, sent.error)
                if after.position == position:
                    return after
                again = after
            record = yield from self._save(again)

    def _give_up(
        self, record: SubscriptionRecord, item: PushItem, reason: str
    ) -> Generator[Step, Any, SubscriptionRecord]:
        """Give a message up; returns the record after it, or the unchanged one if its dead letter has to wait."""
        position = item.id.hex()
        if record.dead_letter_topic is None:
            return (yield from self._save(moved_to(record, position, dropped=1, expired=item.expired, reason=reason)))
        refusal = yield from self._store_letter(item, record.dead_letter_topic)
        if not refusal:
            return (yield from self._save(moved_to(record, position, dead=1, expired=item.expired, reason=reason)))
        self._letters_due_ms = self._now_ms() + LETTER_RETRY_MS
        aside = set_aside(record, position, expired=item.expired, reason=reason, letter_error=refusal)
        if aside is not None:
            return (yield from self._save(aside))
        return waits_for_letters(record, refusal, self._now_ms())

    def _store_letter(self, item: PushItem, topic: str) -> Generator[Step, Any, str]:
        """Why the topic does not accept the letter; "" once it is durable.  Raises: Unavailable if the store fails."""
        try:
            yield StoreDeadLetter(item, topic)
        except OverQuota as error:
            return error.message
        except Unavailable:
            raise
        except MessagingError as error:
            return error.message
        return ""

    def _store_waiting_letters(self, record: SubscriptionRecord) -> Generator[Step, Any, SubscriptionRecord]:
        """Try again to store waiting dead letters, if they are due."""
        left_ms = self._letters_due_ms - self._now_ms()
        # If the clock was set back, the time left exceeds the whole wait.
        if not record.undeliverable or 0 < left_ms <= LETTER_RETRY_MS:
            return record
        refusal = ""
        for letter in record.undeliverable:
            record, refused = yield from self._store_waiting(record, letter)
            refusal = refused or refusal
        if record.undeliverable:
            self._letters_due_ms = self._now_ms() + LETTER_RETRY_MS
            reason = refusal[:REASON_CHARS_MAX]
            if reason != record.dead_letter_error:
                record = yield from self._save(msgspec.structs.replace(record, dead_letter_error=reason))
        return record

    def _store_waiting(
        self, record: SubscriptionRecord, letter: GivenUpMessage
    ) -> Generator[Step, Any, tuple[SubscriptionRecord, str]]:
        assert self._generation is not None
        item: PushItem | None = yield Find(parse_hex(letter.id), self._generation)
        if item is None:
            after = resolved(record, letter, expired=1)
        elif record.dead_letter_topic is None:
            after = resolved(record, letter, dropped=1)
        else:
            refusal = yield from self._store_letter(item, record.dead_letter_topic)
            if refusal:
                return record, refusal
            after = resolved(record, letter, dead=1)
        return (yield from self._save(after)), ""
