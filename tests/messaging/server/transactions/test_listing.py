"""What operators see of transactions."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import NAMESPACE, START_MS, Core, publish

from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.transactions import listing
from fairlead_messaging.server.transactions.commands import Abort, Commit, ExpireTransactions, MarkAborted, Start, Store
from fairlead_messaging.server.transactions.transaction import TransactionLimits, TransactionState

ENDED = (TransactionState.COMMITTED, TransactionState.ABORTED, TransactionState.INVALID)


def start(core: Core, seconds: float = 30) -> int:
    pointer: int = core.do(Start(timeout_seconds=seconds)).transaction.pointer
    return pointer


def ended(core: Core, *states: TransactionState, before: int = listing.POINTER_MAX, limit: int = 100) -> list[int]:
    with core.kv.snapshot() as snapshot:
        return [each.pointer for each in listing.finished(snapshot, states, before=before, limit=limit)]


def test_one_in_progress_shows_what_it_holds_up_and_until_when() -> None:
    """And what it only stored, which holds up no reader."""
    core = Core(limits=TransactionLimits(hold_up_seconds_max=60, lifetime_seconds_max=1000))
    core.create("t")
    core.create("u", hold_up_seconds_max="7")
    pointer = start(core)
    core.do(Store(namespace=NAMESPACE, name="t", messages=[LoggedMessage(b"abc")] * 2, pointer=pointer))
    core.now_ms += 1000
    core.do(publish("u", "a", pointer=pointer))
    with core.kv.snapshot() as snapshot:
        [found] = listing.in_progress(snapshot)
    shown = listing.shown(found, core.service.transactions.limits, core.now_ms)
    [held], [stored] = shown.topics, shown.stored
    assert (held.topic, held.since, held.until) == (f"{NAMESPACE}/u", START_MS + 1000, START_MS + 8000)
    assert (stored.topic, stored.messages, stored.bytes) == (f"{NAMESPACE}/t", 2, 6)
    assert (shown.expires, shown.renewable, shown.timeout) == (START_MS + 30_000, START_MS + 1_000_000, 30)


def test_finished_ones_are_listed_newest_first_in_pages() -> None:
    """By state, with why and whether readers may forget them; marked or not they are in one order."""
    core = Core()
    committed, aborted, late, unmarked = (start(core) for _ in range(4))
    core.do(Commit(pointer=committed, changes=[]))
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


def test_looking_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many committed ones lie between."""
    monkeypatch.setattr(listing, "FINISHED_LOOKED_MAX", 2)
    core = Core()
    aborted = start(core)
    core.do(Abort(pointer=aborted))
    core.do(MarkAborted())
    core.now_ms += 1
    core.do(MarkAborted())
    for _ in range(3):
        core.do(Commit(pointer=start(core), changes=[]))
    assert ended(core, TransactionState.ABORTED) == []
    assert ended(core, TransactionState.ABORTED, before=aborted + 1) == [aborted]
    monkeypatch.setattr(listing, "FINISHED_BYTES_MAX", 1)
    assert len(ended(core, *ENDED)) == 1
