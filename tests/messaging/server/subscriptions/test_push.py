"""The script of one subscription, step by step; tests/sim/push_world.py plays it where everything fails."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import asdict

from fairlead_messaging.api.errors import Conflict, MessagingError, NotFound, Refused, Unavailable
from fairlead_messaging.api.message_id import FIRST, MessageId
from fairlead_messaging.server.subscriptions import push
from fairlead_messaging.server.subscriptions.push import (
    LETTER_RETRY_MS,
    BackOff,
    Find,
    Load,
    Loaded,
    Push,
    PushPause,
    PushResult,
    ReadPage,
    Save,
    Script,
    Send,
    Step,
    StoreDeadLetter,
)
from fairlead_messaging.server.subscriptions.push_page import PushItem, PushPage
from fairlead_messaging.server.subscriptions.subscription import GivenUpMessage, SubscriptionRecord
from fairlead_wire.delivery_policy import DeliveryPolicy

ONCE = DeliveryPolicy(retries_with_no_delay=0, minimum_delay_retries=0, maximum_delay_retries=0, backoff_retries=0)
RECORD = SubscriptionRecord(url="http://x", delivery=asdict(ONCE), dead_letter_topic="n/d")


def item(number: int, *, expires_ms: int = 10**9, expired: int = 0) -> PushItem:
    return PushItem(MessageId(bytes(19) + bytes([number])), b"m", expires_ms, expired)


def loaded(record: SubscriptionRecord, generation: int = 1) -> Loaded:
    """As it comes from a topic without a policy."""
    return Loaded(record, generation, record.policy or DeliveryPolicy())


class Played:
    """A script that gets the result of each step; its steps in order."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.script: Script = Push(lambda: self.now_ms, Random(1)).run()
        self.step: Step | None = next(self.script)

    def got(self, result: Any) -> Any:
        """The next step; None at the end."""
        try:
            if isinstance(result, MessagingError):
                self.step = self.script.throw(result)
            else:
                self.step = self.script.send(result)
        except StopIteration:
            self.step = None
        return self.step

    def up_to_the_page(self, *items: PushItem, record: SubscriptionRecord = RECORD) -> Any:
        assert isinstance(self.step, Load)
        assert isinstance(self.got(loaded(record)), ReadPage)
        end = items[-1].id if items else FIRST
        return self.got(PushPage(items=list(items), end=end, complete=True))


@pytest.fixture
def played() -> Iterator[Played]:
    yield Played()


def test_the_position_moves_with_the_outcome(played: Played) -> None:
    assert played.up_to_the_page(item(1, expired=2), item(2)) == Send("http://x", item(1, expired=2))
    note = played.got(PushResult())
    assert isinstance(note, Save) and note.generation == 1
    assert (note.record.position, note.record.delivered, note.record.expired) == (item(1).id.hex(), 1, 2)
    assert played.got(None) == Send("http://x", item(2))


def test_after_a_failed_write_it_begins_with_the_durable_record(played: Played) -> None:
    """Whether the write took effect is not known; what the store says then counts."""
    played.up_to_the_page(item(1), item(2))
    played.got(PushResult())
    pause = played.got(Unavailable("the store failed", retry_after_seconds=2))
    assert pause == BackOff(2, "the store failed")
    assert isinstance(played.got(None), Load)


def test_a_dead_letter_that_is_not_accepted_waits_and_later_messages_continue(played: Played) -> None:
    played.up_to_the_page(item(1), item(2))
    assert isinstance(played.got(PushResult("status 400", final=True)), StoreDeadLetter)
    note = played.got(Refused("takes only transactional messages"))
    assert isinstance(note, Save)
    record = note.record
    assert record.undeliverable == (GivenUpMessage(item(1).id.hex(), "status 400"),)
    assert record.state == "dead_letters_waiting"
    assert "transactional" in record.reason and "n/d" in record.reason
    assert isinstance(played.got(None), Send)
    note = played.got(PushResult())
    assert isinstance(played.got(None), Load)
    played.now_ms += LETTER_RETRY_MS
    assert isinstance(played.got(loaded(note.record, 1)), Find)
    assert isinstance(played.got(item(1)), StoreDeadLetter)
    note = played.got(None)
    assert isinstance(note, Save)
    assert (note.record.dead_lettered, note.record.delivered, note.record.state) == (1, 1, "delivering")


def test_a_waiting_letter_may_expire_or_lose_its_topic(played: Played) -> None:
    waiting = (GivenUpMessage("01" * 20, "no"), GivenUpMessage("02" * 20, "no"))
    record = SubscriptionRecord(url="http://x", undeliverable=waiting, dead_letter_error="missing")
    assert isinstance(played.got(loaded(record, 1)), Find)
    note = played.got(None)
    assert note.record.expired == 1
    assert isinstance(played.got(None), Find)
    note = played.got(item(2))
    assert (note.record.dropped, note.record.undeliverable, note.record.dead_letter_error) == (1, (), "")


def test_an_expired_message_is_not_pushed(played: Played) -> None:
    policy = DeliveryPolicy(retries_with_no_delay=0, minimum_delay_retries=3, minimum_delay=5)
    step = played.up_to_the_page(
        item(1, expires_ms=3000), record=SubscriptionRecord(url="http://x", delivery=asdict(policy))
    )
    assert isinstance(step, Send)
    assert isinstance(played.got(PushResult("status 503")), Save)
    assert played.got(None) == PushPause(3001)
    played.now_ms = 3001
    note = played.got(None)
    assert isinstance(note, Save) and (note.record.expired, note.record.delivered) == (1, 0)


def test_a_clock_that_steps_back_lengthens_no_wait(played: Played) -> None:
    """The next attempt is at most its wait away, whatever stands in the record."""
    policy = DeliveryPolicy(retries_with_no_delay=0, minimum_delay_retries=3, minimum_delay=60, maximum_delay=60)
    played.now_ms = 3_600_000
    played.up_to_the_page(item(1), record=SubscriptionRecord(url="http://x", delivery=asdict(policy)))
    assert isinstance(played.got(PushResult("status 503")), Save)
    assert played.got(None) == PushPause(3_660_000)
    played.now_ms = 1000
    assert played.got(None) == PushPause(61_000)
    played.now_ms = 61_000
    assert isinstance(played.got(None), Send)


def test_gone_and_changed(played: Played) -> None:
    played.up_to_the_page(item(1))
    played.got(PushResult())
    assert isinstance(played.got(Conflict("was changed")), Load)
    assert played.got(loaded(RECORD, 2)) is None
    ended = Played()
    assert ended.got(NotFound("gone")) is None


def test_any_refusal_is_a_pause(played: Played) -> None:
    played.got(loaded(RECORD, 1))
    pause = played.got(Refused("no", code="strange"))
    assert isinstance(pause, BackOff) and pause.reason == "no"
    assert isinstance(played.got(None), Load)


def test_attempts_follow_the_policy_and_begin_anew() -> None:
    policy = DeliveryPolicy(
        retries_with_no_delay=1, minimum_delay_retries=1, minimum_delay=5, maximum_delay=20, maximum_delay_retries=0,
        backoff_retries=0,
    )  # fmt: skip
    record = SubscriptionRecord(url="http://x")
    first = push.attempt_failed(record, policy, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=None)
    assert first is not None and (first.attempts, first.next_attempt_ms) == (1, 1000)
    second = push.attempt_failed(first, policy, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=None)
    assert second is not None and (second.attempts, second.next_attempt_ms, second.waited_seconds) == (2, 6000, 5.0)
    later = push.attempt_failed(first, policy, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=9)
    assert later is not None and later.next_attempt_ms == 10_000
    assert push.attempt_failed(second, policy, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=None) is None
    moved = push.moved_to(second, "00", delivered=1)
    assert (moved.attempts, moved.waited_seconds, moved.position, moved.delivered) == (0, 0.0, "00", 1)
