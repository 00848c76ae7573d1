"""The transaction manager fails, and topics go on."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import Core, publish

from fairlead_messaging.api.errors import Conflict, StorageError
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch
from fairlead_messaging.server.transactions import availability, manager
from fairlead_messaging.server.transactions.commands import (
    Commit,
    ExpireTransactions,
    MarkAborted,
    PruneTransactions,
    Start,
)
from fairlead_messaging.server.transactions.transaction import TransactionsUnavailable

GARBAGE = b"\xff garbled \x00"


class Garbled:
    """A store in which the record of one open transaction is garbled, and can be set right."""

    def __init__(self) -> None:
        self.kv = MemoryKV()
        self.core = Core(self.kv)
        self.core.create("t")
        self.pointer = self.core.start(500)
        self.core.do(publish("t", "inside", pointer=self.pointer))
        self._key = keys.open_transaction(self.pointer)
        self._right = self.kv.get(self._key) or b""

    def spoil(self) -> None:
        self._put(GARBAGE)

    def mend(self) -> None:
        self._put(self._right)

    def _put(self, value: bytes) -> None:
        batch = Batch()
        batch.put(self._key, value)
        self.kv.apply(batch)


def test_what_cannot_be_read_at_the_start_stops_transactions_alone() -> None:
    """Refused with code, the record and what to do; tried again once a second, and available when it can be read."""
    garbled = Garbled()
    core, pointer = garbled.core, garbled.pointer
    garbled.spoil()
    core.restart()
    for command in (Start(timeout_seconds=5), Commit(pointer=pointer, changes=[]), publish("t", "x", pointer=pointer)):
        with pytest.raises(TransactionsUnavailable, match=f"open transaction {pointer} cannot be read") as refused:
            core.do(command)
        assert (refused.value.code, refused.value.status) == ("transactions_unavailable", 503)
        assert "backup" in refused.value.message
    core.do(publish("t", "plain"))
    assert core.read("t") == ["inside", "plain"]
    with pytest.raises(TransactionsUnavailable):
        core.read("t", committed=True)
    garbled.mend()
    with pytest.raises(TransactionsUnavailable):
        core.do(ExpireTransactions())
    core.now_ms += availability.RETRY_MS
    core.do(ExpireTransactions())
    assert core.service.transaction_service.reason == ""
    assert core.commit(pointer).pointer == pointer
    assert core.read("t", committed=True) == ["inside", "plain"]


def test_a_clock_that_steps_back_does_not_keep_it_away() -> None:
    garbled = Garbled()
    garbled.spoil()
    garbled.core.restart()
    with pytest.raises(TransactionsUnavailable):
        garbled.core.do(ExpireTransactions())
    garbled.mend()
    garbled.core.now_ms -= 3_600_000
    garbled.core.do(ExpireTransactions())


def test_a_command_that_fails_leaves_the_rest_of_its_batch_alone(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    first = core.start(500)

    def fail(self: object, batch: Batch, now_ms: int) -> bool:
        batch.put(b"half", b"done")
        raise StorageError("the table is damaged")

    monkeypatch.setattr(manager.TransactionManager, "prune", fail)
    answers = core.batch(
        publish("t", "a"), Commit(pointer=first, changes=[]), PruneTransactions(), MarkAborted(), publish("t", "b")
    )
    assert [type(each).__name__ for each in answers] == [
        "PublishedAt", "Transaction", "TransactionsUnavailable", "TransactionsUnavailable", "PublishedAt",
    ]  # fmt: skip
    assert core.read("t") == ["a", "b"]
    assert core.kv.get(b"half") is None
    monkeypatch.undo()
    with pytest.raises(Conflict) as refused:
        core.do(publish("t", "x", pointer=first))
    assert refused.value.facts["state"] == "committed"
    assert core.start(5) > first


def test_a_damaged_finished_record_stops_only_those_who_ask_for_it(core: Core) -> None:
    open_one = core.start(900)
    done = core.start(900)
    core.commit(done, "k")
    batch = Batch()
    batch.put(keys.finished(done), GARBAGE)
    core.kv.apply(batch)
    core.restart()
    with pytest.raises(TransactionsUnavailable, match=str(done)):
        core.do(publish("t", "x", pointer=done))
    assert core.commit(open_one, "another").ended_by == "conflict"
    later = core.start(900)
    assert core.commit(later, "another").state.value == "committed"
    core.now_ms += manager.RECORD_KEPT_MS * 2
    assert core.do(PruneTransactions()) is False
    assert core.kv.get(keys.finished(done)) == GARBAGE
    assert core.service.transaction_service.failures == 0
    assert core.do(publish("t", "plain")).first is not None
