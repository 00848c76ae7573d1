"""Pushing one subscription, as a script: what is done in which order, and what is durable before what.

    Load the record ─→ try waiting dead letters ─→ Read a page ─→ for each message
        Send ─2xx→ Note the position behind it                        (delivered)
          ├─try later→ Note attempt and time, Pause, Send again
          └─final→ WriteLetter, then Note the position                (dead-lettered)
                     └─refused→ Note it as undeliverable, go on; tried again every few seconds

Every round begins with the durable record and positions move with a durable outcome only, so whatever fails in
between, the worst is a message that comes twice.  A script yields steps and is sent what each came to, or thrown
what it met; ``io.pusher`` acts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from fairlead_messaging.api.errors import Conflict, MessagingError, NotFound, Unavailable
from fairlead_messaging.api.message_id import FIRST, MessageId, parse_hex
from fairlead_messaging.server.subscriptions import progress
from fairlead_messaging.server.subscriptions.push_page import Item, PushPage
from fairlead_messaging.server.subscriptions.subscription import Subscription, Undeliverable
from fairlead_wire import delivery

TROUBLE_SECONDS = 5.0
"""Pause after a failure that says nothing about when to come back."""
IDLE_WAIT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Load:
    """Answers (record, generation of the living topic).  NotFound when either is gone."""


@dataclass(frozen=True, slots=True)
class Read:
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
    item: Item


@dataclass(frozen=True, slots=True)
class Sent:
    """``error`` "" when delivered; ``final``: repeating is pointless; how long the endpoint asked to wait."""

    error: str = ""
    final: bool = False
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class WriteLetter:
    """Store the message in the dead letter topic, once however often it is asked."""

    item: Item
    topic: str


@dataclass(frozen=True, slots=True)
class Note:
    """Make the record durable.  Conflict when the subscription was put anew, NotFound when it is gone."""

    record: Subscription
    generation: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing until the clock says so: the policy's own wait."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class Rest:
    """Something beside the endpoint went wrong; do nothing for so long, whatever the clock does."""

    seconds: float
    reason: str


Step = Load | Read | Find | Send | WriteLetter | Note | Pause | Rest
Script = Generator[Step, Any, None]


class Push:
    """One subscription.  ``now_ms`` is the clock, ``random`` spreads retries."""

    def __init__(self, now_ms: Callable[[], int], random: Random) -> None:
        self._now_ms = now_ms
        self._random = random
        self._generation: int | None = None
        self._letters_due_ms = 0
        self.revision = ""
        """Of the record as it was last loaded."""

    def run(self) -> Script:
        """Ends when the subscription, or the generation of the topic it began with, is gone."""
        while True:
            try:
                yield from self._round()
            except NotFound:
                return
            except Conflict:
                continue  # put anew meanwhile: the record says how to go on
            except Unavailable as error:
                yield Rest(error.retry_after_seconds, error.message)
            except MessagingError as error:
                yield Rest(TROUBLE_SECONDS, error.message)

    def _round(self) -> Script:
        record, generation = yield Load()
        self.revision = record.revision
        if self._generation is None:
            self._generation = generation
        elif generation != self._generation:
            raise NotFound("the topic was created anew", code="subscription_not_found")
        record = yield from self._write_letters(record)
        after = record.after
        wait_ms = IDLE_WAIT_MS
        if record.undeliverable:
            wait_ms = min(wait_ms, max(0, self._letters_due_ms - self._now_ms()))
        page: PushPage = yield Read(after, generation, wait_ms)
        for item in page.items:
            record = yield from self._deliver(record, item)
        if page.end > (bytes.fromhex(record.position) if record.position else FIRST):
            yield from self._note(progress.moved(record, page.end.hex(), expired=page.expired))

    def _note(self, record: Subscription) -> Generator[Step, Any, Subscription]:
        assert self._generation is not None
        yield Note(record, self._generation)
        return record

    def _deliver(self, record: Subscription, item: Item) -> Generator[Step, Any, Subscription]:
        """Returns the record behind the message; it is durable by then."""
        position = item.id.hex()
        uniform = delivery.generator_of(record.delivery, self._random)
        while True:
            record = yield from self._write_letters(record)
            now_ms = self._now_ms()
            if now_ms > item.expires_ms:
                return (yield from self._note(progress.moved(record, position, expired=item.expired + 1)))
            record = progress.within_its_wait(record, now_ms)
            if record.next_attempt_ms > now_ms:
                until_ms = min(record.next_attempt_ms, item.expires_ms + 1)
                yield Pause(min(until_ms, self._letters_due_ms) if record.undeliverable else until_ms)
                continue
            sent: Sent = yield Send(record.url, item)
            if not sent.error:
                return (yield from self._note(progress.moved(record, position, delivered=1, expired=item.expired)))
            again = None
            if not sent.final:
                again = progress.failed(
                    record, sent.error, self._now_ms(), uniform=uniform, retry_after_seconds=sent.retry_after_seconds
                )
            if again is None:
                after = yield from self._give_up(record, item, sent.error)
                if after.position == position:
                    return after
                again = after
            record = yield from self._note(again)

    def _give_up(self, record: Subscription, item: Item, reason: str) -> Generator[Step, Any, Subscription]:
        """Returns the record behind the message, or where it stood when even its letter has to wait."""
        position = item.id.hex()
        if record.dead_letter_topic is None:
            return (
                yield from self._note(progress.moved(record, position, dropped=1, expired=item.expired, reason=reason))
            )
        refusal = yield from self._write_letter(item, record.dead_letter_topic)
        if not refusal:
            return (
                yield from self._note(progress.moved(record, position, dead=1, expired=item.expired, reason=reason))
            )
        self._letters_due_ms = self._now_ms() + progress.LETTER_RETRY_MS
        aside = progress.set_aside(record, position, expired=item.expired, reason=reason, letter_error=refusal)
        if aside is not None:
            return (yield from self._note(aside))
        return progress.waits_for_letters(record, refusal, self._now_ms())

    def _write_letter(self, item: Item, topic: str) -> Generator[Step, Any, str]:
        """Why its topic does not take the letter; "" when it is durable.  Raises: Unavailable, the store's trouble."""
        try:
            yield WriteLetter(item, topic)
        except Unavailable:
            raise
        except MessagingError as error:
            return error.message
        return ""

    def _write_letters(self, record: Subscription) -> Generator[Step, Any, Subscription]:
        """Try what waits again, when it is due."""
        left_ms = self._letters_due_ms - self._now_ms()
        # More is left than there ever was when the clock stepped back.
        if not record.undeliverable or 0 < left_ms <= progress.LETTER_RETRY_MS:
            return record
        refusal = ""
        for letter in record.undeliverable:
            record, refused = yield from self._write_waiting(record, letter)
            refusal = refused or refusal
        if record.undeliverable:
            self._letters_due_ms = self._now_ms() + progress.LETTER_RETRY_MS
            told = refusal[: progress.REASON_CHARS_MAX]
            if told != record.dead_letter_error:
                record = yield from self._note(msgspec.structs.replace(record, dead_letter_error=told))
        return record

    def _write_waiting(
        self, record: Subscription, letter: Undeliverable
    ) -> Generator[Step, Any, tuple[Subscription, str]]:
        assert self._generation is not None
        item: Item | None = yield Find(parse_hex(letter.id), self._generation)
        if item is None:
            after = progress.resolved(record, letter, expired=1)
        elif record.dead_letter_topic is None:
            after = progress.resolved(record, letter, dropped=1)
        else:
            refusal = yield from self._write_letter(item, record.dead_letter_topic)
            if refusal:
                return record, refusal
            after = progress.resolved(record, letter, dead=1)
        return (yield from self._note(after)), ""
