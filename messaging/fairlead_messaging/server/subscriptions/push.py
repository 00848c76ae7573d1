"""Pushing one subscription, as a script: what is done in which order, and what is durable before what.

    Load the record ─→ try waiting dead letters ─→ Read a page ─→ for each message
        Send ─2xx→ Save the position behind it                        (delivered)
          ├─try later→ Save attempt and time, Pause, Send again
          └─final→ StoreDeadLetter, then Save the position            (dead-lettered)
                     └─refused→ Save it as undeliverable, go on; tried again every few seconds

Every round begins with the durable record and the policy that counts by then; positions move with a durable outcome
only, so whatever fails in between, the worst is a message that comes twice.  A script yields steps and is sent what
each came to, or thrown what it met; ``io.push_performer`` acts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import msgspec

from fairlead_messaging.api.errors import Conflict, MessagingError, NotFound, OverQuota, Unavailable
from fairlead_messaging.api.message_id import FIRST, MessageId, parse_hex
from fairlead_messaging.server.subscriptions import effective_policy, progress
from fairlead_messaging.server.subscriptions.push_page import PushItem, PushPage
from fairlead_messaging.server.subscriptions.subscription import GivenUpMessage, SubscriptionRecord
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy

TROUBLE_SECONDS = 5.0
"""Pause after a failure that says nothing about when to come back."""
IDLE_WAIT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Load:
    """Answers Loaded.  NotFound when the subscription or its topic is gone."""


class Loaded(NamedTuple):
    """The record, the generation of the living topic, and the policy that counts."""

    record: SubscriptionRecord
    generation: int
    policy: DeliveryPolicy


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Answers a PushPage after this id of this generation, waiting for something to come."""

    after: MessageId
    generation: int
    wait_ms: int


@dataclass(frozen=True, slots=True)
class Find:
    """Answers the Item with this id, None when it is over."""

    id: MessageId
    generation: int


@dataclass(frozen=True, slots=True)
class Send:
    """Answers Sent."""

    url: str
    item: PushItem


@dataclass(frozen=True, slots=True)
class PushResult:
    """``error`` "" when delivered; ``final``: repeating is pointless; how long the endpoint asked to wait."""

    error: str = ""
    final: bool = False
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StoreDeadLetter:
    """Store the message in the dead letter topic, once however often it is asked."""

    item: PushItem
    topic: str


@dataclass(frozen=True, slots=True)
class Save:
    """Make the record durable.

    Conflict when the subscription was put anew or its policy changed, NotFound when it is gone.
    """

    record: SubscriptionRecord
    generation: int
    policy: str


@dataclass(frozen=True, slots=True)
class PushPause:
    """Do nothing until the clock says so: the policy's own wait."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class BackOff:
    """Something beside the endpoint went wrong; do nothing for so long, whatever the clock does."""

    seconds: float
    reason: str


def version_of(record: SubscriptionRecord, policy: DeliveryPolicy) -> str:
    """Changes when a running subscription has to begin again: it was put anew, or another policy counts."""
    return f"{record.revision}/{effective_policy.digest(policy)}"


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
        """Of the subscription and its policy as they were last loaded: ``version_of``."""

    def run(self) -> Script:
        """Ends when the subscription, or the generation of the topic it began with, is gone."""
        while True:
            try:
                yield from self._round()
            except NotFound:
                return
            except Conflict:
                continue  # put anew meanwhile, or another policy counts: the record says how to go on
            except Unavailable as error:
                yield BackOff(error.retry_after_seconds, error.message)
            except MessagingError as error:
                yield BackOff(TROUBLE_SECONDS, error.message)

    def _round(self) -> Script:
        loaded: Loaded = yield Load()
        generation, self._policy = loaded.generation, loaded.policy
        self._digest = effective_policy.digest(loaded.policy)
        self.version = version_of(loaded.record, loaded.policy)
        record = progress.under(loaded.record, self._digest)
        if self._generation is None:
            self._generation = generation
        elif generation != self._generation:
            raise NotFound("the topic was created anew", code="subscription_not_found")
        record = yield from self._store_waiting_letters(record)
        after = record.after
        wait_ms = IDLE_WAIT_MS
        if record.undeliverable:
            wait_ms = min(wait_ms, max(0, self._letters_due_ms - self._now_ms()))
        page: PushPage = yield ReadPage(after, generation, wait_ms)
        for item in page.items:
            record = yield from self._deliver(record, item)
        if page.end > (bytes.fromhex(record.position) if record.position else FIRST):
            yield from self._save(progress.moved(record, page.end.hex(), expired=page.expired))

    def _save(self, record: SubscriptionRecord) -> Generator[Step, Any, SubscriptionRecord]:
        assert self._generation is not None
        yield Save(record, self._generation, self._digest)
        return record

    def _deliver(self, record: SubscriptionRecord, item: PushItem) -> Generator[Step, Any, SubscriptionRecord]:
        """Returns the record behind the message; it is durable by then."""
        position = item.id.hex()
        uniform = delivery_policy.generator_of(self._policy, self._random)
        while True:
            record = yield from self._store_waiting_letters(record)
            now_ms = self._now_ms()
            if now_ms > item.expires_ms:
                return (yield from self._save(progress.moved(record, position, expired=item.expired + 1)))
            record = progress.within_its_wait(record, now_ms)
            if record.next_attempt_ms > now_ms:
                until_ms = min(record.next_attempt_ms, item.expires_ms + 1)
                yield PushPause(min(until_ms, self._letters_due_ms) if record.undeliverable else until_ms)
                continue
            sent: PushResult = yield Send(record.url, item)
            if not sent.error:
                return (yield from self._save(progress.moved(record, position, delivered=1, expired=item.expired)))
            again = None
            if not sent.final:
                again = progress.failed(
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
        """Returns the record behind the message, or where it stood when even its letter has to wait."""
        position = item.id.hex()
        if record.dead_letter_topic is None:
            return (
                yield from self._save(progress.moved(record, position, dropped=1, expired=item.expired, reason=reason))
            )
        refusal = yield from self._store_letter(item, record.dead_letter_topic)
        if not refusal:
            return (
                yield from self._save(progress.moved(record, position, dead=1, expired=item.expired, reason=reason))
            )
        self._letters_due_ms = self._now_ms() + progress.LETTER_RETRY_MS
        aside = progress.set_aside(record, position, expired=item.expired, reason=reason, letter_error=refusal)
        if aside is not None:
            return (yield from self._save(aside))
        return progress.waits_for_letters(record, refusal, self._now_ms())

    def _store_letter(self, item: PushItem, topic: str) -> Generator[Step, Any, str]:
        """Why its topic does not take the letter; "" when it is durable.  Raises: Unavailable, the store's trouble."""
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
        """Try what waits again, when it is due."""
        left_ms = self._letters_due_ms - self._now_ms()
        # More is left than there ever was when the clock stepped back.
        if not record.undeliverable or 0 < left_ms <= progress.LETTER_RETRY_MS:
            return record
        refusal = ""
        for letter in record.undeliverable:
            record, refused = yield from self._store_waiting(record, letter)
            refusal = refused or refusal
        if record.undeliverable:
            self._letters_due_ms = self._now_ms() + progress.LETTER_RETRY_MS
            reason = refusal[: progress.REASON_CHARS_MAX]
            if reason != record.dead_letter_error:
                record = yield from self._save(msgspec.structs.replace(record, dead_letter_error=reason))
        return record

    def _store_waiting(
        self, record: SubscriptionRecord, letter: GivenUpMessage
    ) -> Generator[Step, Any, tuple[SubscriptionRecord, str]]:
        assert self._generation is not None
        item: PushItem | None = yield Find(parse_hex(letter.id), self._generation)
        if item is None:
            after = progress.resolved(record, letter, expired=1)
        elif record.dead_letter_topic is None:
            after = progress.resolved(record, letter, dropped=1)
        else:
            refusal = yield from self._store_letter(item, record.dead_letter_topic)
            if refusal:
                return record, refusal
            after = progress.resolved(record, letter, dead=1)
        return (yield from self._save(after)), ""
