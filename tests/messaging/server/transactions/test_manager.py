"""The manager: pointers, ends, conflicts, memory that does not grow."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.topics.messaging_core import START_MS, Core, publish

from fairlead_messaging.api.errors import Conflict, Unavailable
from fairlead_messaging.server.access import Caller, Grants
from fairlead_messaging.server.commands import Command
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.transactions import manager
from fairlead_messaging.server.transactions.commands import (
    Abort,
    Commit,
    ExpireTransactions,
    Invalidate,
    MarkAborted,
    PruneTransactions,
    RenewTransaction,
    Start,
)
from fairlead_messaging.server.transactions.manager import DIGEST_BYTES, digests
from fairlead_messaging.server.transactions.transaction import TransactionLimits, TransactionState


def test_one_subject_does_not_take_all_transactions(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "OPEN_MAX", 6)
    monkeypatch.setattr(manager, "OPEN_OF_ONE_MAX", 3)

    def begin(owner: str) -> int:
        by = Caller(shown=owner, owner=owner, grants=Grants())
        return int(core.do(Start(timeout_seconds=30, by=by)).transaction.pointer)

    first, *_ = [begin("certificate:greedy") for _ in range(3)]
    with pytest.raises(Unavailable, match="of this subject") as refused:
        begin("certificate:greedy")
    assert refused.value.code == "too_many_transactions"
    begin("certificate:other")
    core.do(Abort(pointer=first))
    core.do(MarkAborted())
    begin("certificate:greedy")
    core.start()
    core.start()
    with pytest.raises(Unavailable, match="6 transactions are open"):
        core.start()


def test_pointers(core: Core) -> None:
    pointers = [core.start(), core.start()]
    core.now_ms -= 1000
    pointers.append(core.start())
    core.restart()
    pointers.append(core.start())
    core.batch(Start(timeout_seconds=1), lost=True)
    pointers.append(core.start())
    assert pointers[0] == START_MS * 1_000_000
    assert pointers == sorted(set(pointers))


def test_a_commit_that_was_lost_did_not_happen(core: Core) -> None:
    pointer = core.start()
    core.do(publish("t", "a", pointer=pointer))
    core.batch(Commit(pointer=pointer, changes=[]), lost=True)
    assert core.read("t", committed=True) == []
    assert core.service.transactions.state(pointer) == "in_progress"
    core.commit(pointer)
    assert core.read("t", committed=True) == ["a"]


def test_each_end_is_the_last(core: Core) -> None:
    for state in ("committed", "aborted", "invalid"):
        pointer = core.start()
        ends: dict[str, Command[Any]] = {
            "committed": Commit(pointer=pointer, changes=[]),
            "aborted": Abort(pointer=pointer),
            "invalid": Invalidate(pointer=pointer),
        }
        core.do(ends[state])
        core.restart()
        with pytest.raises(Conflict) as again:
            core.do(Abort(pointer=pointer))
        why = {"ended_by": "invalidate"} if state == "invalid" else {}
        assert again.value.facts == {"state": state, **why}


def test_an_end_is_known_within_its_own_batch(core: Core) -> None:
    pointer = core.start()
    done, refused = core.batch(Commit(pointer=pointer, changes=[]), Abort(pointer=pointer))
    assert done.state is TransactionState.COMMITTED
    assert refused.facts == {"state": "committed"}


def test_conflicts_survive_a_restart(core: Core) -> None:
    one, two = core.start(), core.start()
    core.commit(one, "k")
    core.restart()
    assert core.commit(two, "k").state is TransactionState.ABORTED
    assert core.commit(core.start(), "k").state is TransactionState.COMMITTED


def test_timeouts(core: Core) -> None:
    pointer = core.start(1)
    core.now_ms += 1001
    with pytest.raises(Conflict):
        core.commit(pointer)
    assert [each.ended_by for each in core.do(ExpireTransactions())] == ["timeout"]
    assert core.service.transactions.state(pointer) == "invalid"


def test_settling_is_bounded_and_resumes_after_a_restart(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "SETTLE_ROWS_MAX", 10)
    pointer = core.start()
    core.do(publish("t", *["x"] * 35, pointer=pointer))
    core.do(Abort(pointer=pointer))
    rounds = 0
    while core.do(MarkAborted()):
        rounds += 1
        core.restart()
        assert core.read("t", committed=True) == []
    assert rounds >= 3
    assert core.service.transactions.open == {}
    assert core.read("t", committed=True) == []


def test_finished_ones_are_forgotten_after_a_day(core: Core) -> None:
    """Not while an older one is open, which they may be in conflict with."""
    done = core.start()
    core.commit(done, "k")
    core.now_ms += 2 * manager.RECORD_KEPT_MS
    core.do(PruneTransactions())
    assert core.service.transactions.state(done) == "unknown"


def test_a_restart_loads_keys_only_for_who_is_open(core: Core) -> None:
    for _ in range(5):
        core.commit(core.start(), "x" * 1000)
    late = core.start()
    core.commit(core.start(), "k", "l")
    core.restart()
    assert len(core.service.transactions.committed_keys) == 2
    assert len(core.kv.get(keys.finished(core.service.transactions.last_pointer)) or b"") < 400
    assert core.commit(late, "l").state is TransactionState.ABORTED
    core.restart()
    assert len(core.service.transactions.committed_keys) == 0


def test_too_many_keys_are_a_conflict_with_whom_they_may_concern(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgotten is not unchanged; who began afterwards is not concerned."""
    monkeypatch.setattr(manager, "COMMITTED_MAX", 3)
    held, late = core.start(), core.start()
    core.commit(core.start(), "a", "b")
    core.commit(core.start(), "c", "d")
    assert len(core.service.transactions.committed_keys) == 3
    assert core.commit(late, "other").state is TransactionState.ABORTED
    assert core.commit(core.start(), "other").state is TransactionState.COMMITTED
    assert core.commit(held).state is TransactionState.COMMITTED


def test_pruning_is_done_in_pieces(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "PRUNE_ROWS_MAX", 4)
    old = [core.start() for _ in range(10)]
    for pointer in old:
        core.commit(pointer)
    core.now_ms += 2 * manager.RECORD_KEPT_MS
    young = [core.start() for _ in range(10)]
    for pointer in young:
        core.commit(pointer)
    turns = 1
    while core.do(PruneTransactions()):
        turns += 1
    assert turns == 3
    assert {core.service.transactions.state(pointer) for pointer in old} == {"unknown"}
    assert {core.service.transactions.state(pointer) for pointer in young} == {"committed"}


def test_renewed_in_time_it_lives_on() -> None:
    core = Core(limits=TransactionLimits(lifetime_seconds_max=100))
    pointer = core.start(30)
    for _ in range(3):
        core.now_ms += 29_000
        assert core.do(RenewTransaction(pointer=pointer)).expires_ms == min(core.now_ms + 30_000, START_MS + 100_000)
        core.restart()
    core.now_ms = START_MS + 100_000
    assert core.do(RenewTransaction(pointer=pointer, timeout_seconds=50)).expires_ms == core.now_ms
    core.now_ms += 1
    for _ in range(2):
        with pytest.raises(Conflict) as over:
            core.do(RenewTransaction(pointer=pointer))
        assert over.value.facts == {"state": "invalid", "ended_by": "lifetime"}
        core.do(ExpireTransactions())


def test_a_renewal_that_was_lost_did_not_happen(core: Core) -> None:
    pointer = core.start(30)
    core.now_ms += 20_000
    core.batch(RenewTransaction(pointer=pointer), lost=True)
    core.now_ms += 10_001
    with pytest.raises(Conflict) as over:
        core.do(RenewTransaction(pointer=pointer))
    assert over.value.facts["ended_by"] == "timeout"


def test_a_topic_bears_a_hold_up_for_so_long() -> None:
    core = Core(limits=TransactionLimits(hold_up_seconds_max=600))
    core.create("patient")
    core.create("short", hold_up_seconds_max="60")
    pointer = core.start(500)
    core.do(publish("patient", "a", pointer=pointer))
    core.do(publish("short", "b", pointer=pointer))
    core.do(publish("short", "plain"))
    core.now_ms += 60_000
    core.do(RenewTransaction(pointer=pointer))
    assert core.service.transactions.next_deadline_ms(core.now_ms) == core.now_ms
    core.now_ms += 1
    assert core.read("short", committed=True) == []
    more: list[Command[Any]] = [RenewTransaction(pointer=pointer), Commit(pointer=pointer, changes=[])]
    for command in (*more, publish("short", "c", pointer=pointer)):
        with pytest.raises(Conflict) as over:
            core.do(command)
        assert over.value.facts == {"state": "invalid", "ended_by": "hold_up"}
    [ended] = core.do(ExpireTransactions())
    assert (ended.state, ended.ended_by) == (TransactionState.INVALID, "hold_up")
    assert core.read("short", committed=True) == ["plain"]
    assert core.read("patient", committed=True) == []


def test_what_is_only_stored_holds_up_no_reader() -> None:
    """So hours of it are bounded by renewals and lifetime alone."""
    core = Core(limits=TransactionLimits(hold_up_seconds_max=1))
    core.create("t")
    pointer = core.start(100)
    for _ in range(5):
        core.store(pointer, "a")
        core.now_ms += 90_000
        core.do(RenewTransaction(pointer=pointer))
        core.do(publish("t", "plain"))
        assert core.read("t", committed=True)[-1] == "plain"
    core.do(publish("t", pointer=pointer))
    core.commit(pointer)
    assert core.read("t", committed=True) == ["plain"] * 5 + ["a"] * 5


def test_a_long_commit_still_conflicts_after_a_restart(core: Core) -> None:
    """It began hours before the oldest that is open, where a restart does not look through all that ended."""
    long = core.start(80_000)
    core.now_ms += 7_200_000
    late = core.start()
    core.commit(long, "k")
    core.restart()
    assert core.commit(late, "k").ended_by == "conflict"
    core.now_ms += manager.RECORD_KEPT_MS + 1
    core.do(MarkAborted())
    while core.do(PruneTransactions()):
        pass
    with core.kv.snapshot() as snapshot:
        assert list(snapshot.scan(keys.LONG, keys.above(keys.LONG))) == []


def test_any_text_is_a_key() -> None:
    assert [len(digest) for digest in digests(["", "\ud800", "x" * 2000])] == [DIGEST_BYTES] * 3
