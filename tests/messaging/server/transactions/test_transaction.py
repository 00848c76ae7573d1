"""The durable record of a transaction, and what readers learn from the open ones."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import NAMESPACE, START_MS, Core, publish

from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.transactions import listing, transaction
from fairlead_messaging.server.transactions.commands import Abort, ExpireTransactions, MarkAborted, RenewTransaction
from fairlead_messaging.server.transactions.transaction import (
    Touched,
    Transaction,
    TransactionLimits,
    TransactionState,
    TransactionView,
    deadline,
    held_until_ms,
)


def test_a_record_comes_back() -> None:
    touched = Touched(namespace="n", name="t", generation=2, first=Position(1, 2), last=Position(3, 4), pending_rows=5)
    made = Transaction(
        pointer=2**62, state=TransactionState.ABORTED, started_ms=1, expires_ms=2, touched=[touched], changed=b"k"
    )
    assert transaction.decode(transaction.encode(made)) == made


def test_what_is_open() -> None:
    for state, applied, is_open in (
        (TransactionState.IN_PROGRESS, False, True), (TransactionState.COMMITTED, False, False),
        (TransactionState.ABORTED, False, True), (TransactionState.INVALID, True, False),
    ):  # fmt: skip
        made = Transaction(pointer=1, state=state, started_ms=0, expires_ms=0, rows_marked=applied)
        assert made.is_open is is_open


def test_a_view_is_of_one_snapshot(core: Core) -> None:
    pointer = core.start(5)
    published = core.do(publish("t", "a", pointer=pointer))
    with core.kv.snapshot() as before:
        core.do(Abort(pointer=pointer))
        with core.kv.snapshot() as aborted:
            assert TransactionView(aborted).aborted == {pointer}
        assert core.do(MarkAborted()) is False
        view = TransactionView(before)
        assert set(view.in_progress) == {pointer}
        assert list(view.spans(core.topic("t"))) == [(pointer, published.first, published.last)]
    with core.kv.snapshot() as after:
        assert not TransactionView(after).in_progress and not TransactionView(after).aborted


def test_where_a_row_may_be_gone() -> None:
    topic = TopicGeneration(namespace="n", name="t", generation=1, ttl_seconds=100)
    touched = Touched(namespace="n", name="t", generation=1)
    assert not touched.may_be_removed(Position(0, 0), topic, 10**9)
    touched.extend(Position(1000, 0), Position(1000, 5), (0, 7))
    touched.first = None  # rolled back
    touched.extend(Position(3000, 0), Position(3000, 0), (9,))
    first: Position | None = touched.first
    assert (touched.begin, first, touched.shortest_ttl) == (Position(1000, 0), Position(3000, 0), 7)
    assert [touched.may_be_removed(Position(1000, 1), topic, now_ms) for now_ms in (8000, 8001)] == [False, True]
    assert not touched.may_be_removed(Position(999, 0), topic, 10**9)
    assert not touched.may_be_removed(Position(3000, 1), topic, 10**9)
    without_ttl = Touched(namespace="n", name="t", generation=1)
    without_ttl.extend(Position(5, 0), Position(6, 0))
    assert [without_ttl.may_be_removed(Position(5, 0), topic, now_ms) for now_ms in (100_005, 100_006)] == [False, True]


# --- When a transaction ends by itself, and by what.

LIMITS = TransactionLimits(timeout_seconds_max=10, lifetime_seconds_max=100, hold_up_seconds_max=5)


def open_transaction(expires_ms: int, *touched: Touched) -> Transaction:
    return Transaction(
        pointer=1, state=TransactionState.IN_PROGRESS, started_ms=1000, expires_ms=expires_ms, touched=list(touched)
    )


def published(at_ms: int, hold_up_seconds: int = 0) -> Touched:
    first = Position(at_ms, 0)
    return Touched(namespace="n", name="t", generation=1, first=first, last=first, hold_up_seconds=hold_up_seconds)


def test_the_earliest_end_counts() -> None:
    assert deadline(open_transaction(11_000), LIMITS, 2000) == (11_000, "timeout")
    assert deadline(open_transaction(101_000), LIMITS, 2000) == (101_000, "lifetime")
    assert deadline(open_transaction(11_000, published(2000)), LIMITS, 2000) == (7000, "hold_up")
    assert deadline(open_transaction(11_000, published(2000, 60)), LIMITS, 2000) == (11_000, "timeout")
    assert deadline(open_transaction(11_000, published(3000, 60), published(9000, 1)), LIMITS, 9000) == (
        10_000,
        "hold_up",
    )
    stored = Touched(namespace="n", name="t", generation=1, pending_rows=7)
    assert deadline(open_transaction(11_000, stored), LIMITS, 2000) == (11_000, "timeout")


def test_a_position_ahead_of_the_clock_counts_from_the_start() -> None:
    """A clock that was once a year ahead must not let one transaction hold up readers for a year."""
    ahead = published(10**9)
    assert held_until_ms(open_transaction(11_000, ahead), ahead, LIMITS, 2000) == 6000
    assert deadline(open_transaction(11_000, ahead), LIMITS, 2000) == (6000, "hold_up")


def test_a_clock_set_back_a_little_ends_no_transaction_of_hours(core: Core) -> None:
    """It publishes at the end of its work, and the clock is set back by a millisecond in between."""
    pointer = core.start(600)
    for _ in range(24):
        core.now_ms += 300_000
        core.do(RenewTransaction(pointer=pointer))
    core.do(publish("t", "other"))
    core.now_ms -= 1
    core.do(publish("t", "mine", pointer=pointer))
    assert core.commit(pointer).state is TransactionState.COMMITTED


# --- What operators see of transactions.


ENDED = (TransactionState.COMMITTED, TransactionState.ABORTED, TransactionState.INVALID)


def ended(core: Core, *states: TransactionState, before: int = listing.POINTER_MAX, limit: int = 100) -> list[int]:
    with core.kv.snapshot() as snapshot:
        return [each.pointer for each in listing.finished(snapshot, states, before=before, limit=limit)]


def test_one_in_progress_shows_what_it_holds_up_and_until_when() -> None:
    core = Core(limits=TransactionLimits(hold_up_seconds_max=60, lifetime_seconds_max=1000))
    core.create("t")
    core.create("u", hold_up_seconds_max="7")
    pointer = core.start()
    core.store(pointer, *["abc"] * 2)
    core.now_ms += 1000
    core.do(publish("u", "a", pointer=pointer))
    with core.kv.snapshot() as snapshot:
        [found] = listing.in_progress(snapshot)
    shown = listing.shown(found, core.service.transactions.limits, core.now_ms)
    [held], [stored] = shown.topics, shown.stored
    assert (held.topic, held.since, held.until) == (f"{NAMESPACE}/u", START_MS + 1000, START_MS + 8000)
    assert (stored.topic, stored.messages, stored.bytes) == (f"{NAMESPACE}/t", 2, 6)
    assert (shown.expires, shown.renewable, shown.timeout) == (START_MS + 30_000, START_MS + 1_000_000, 30)


def test_finished_ones_are_listed_newest_first_in_pages(core: Core) -> None:
    committed, aborted, late, unmarked = (core.start() for _ in range(4))
    core.commit(committed)
    core.do(Abort(pointer=aborted))
    core.now_ms += 1
    core.do(MarkAborted())
    core.do(Abort(pointer=unmarked))
    core.now_ms += 60_000
    core.do(ExpireTransactions())
    assert ended(core, *ENDED) == [unmarked, late, aborted, committed]
    assert ended(core, *ENDED, limit=2) == [unmarked, late]
    assert ended(core, *ENDED, before=late, limit=1) == [aborted]
    assert ended(core, TransactionState.INVALID) == [late]
    assert ended(core, TransactionState.ABORTED) == [unmarked, aborted]
    with core.kv.snapshot() as snapshot:
        shown = [
            listing.shown(each, core.service.transactions.limits, core.now_ms)
            for each in listing.finished(snapshot, ENDED, limit=4)
        ]
    assert [(each.state, each.ended_by, each.marked) for each in shown] == [
        ("aborted", "", False), ("invalid", "timeout", False), ("aborted", "", True), ("committed", "", False),
    ]  # fmt: skip
    assert shown[1].ended == core.now_ms


def test_looking_is_bounded(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "FINISHED_LOOKED_MAX", 2)
    aborted = core.start()
    core.do(Abort(pointer=aborted))
    core.do(MarkAborted())
    core.now_ms += 1
    core.do(MarkAborted())
    for _ in range(3):
        core.commit(core.start())
    assert ended(core, TransactionState.ABORTED) == []
    assert ended(core, TransactionState.ABORTED, before=aborted + 1) == [aborted]
    monkeypatch.setattr(listing, "FINISHED_BYTES_MAX", 1)
    assert len(ended(core, *ENDED)) == 1
