"""Store, publish by reference and roll back, seen from the rows."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, producer, publish

from fairlead_messaging.api.errors import Conflict, Refused
from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.transactions import publishing, visibility
from fairlead_messaging.server.transactions.commands import Abort, MarkAborted, Rollback, Start, Store
from fairlead_messaging.server.transactions.transaction import TransactionView


def begun() -> tuple[Core, int]:
    core = Core()
    core.create("t")
    return core, core.do(Start(timeout_seconds=5)).transaction.pointer


def waited_for(core: Core) -> bytes | None:
    """The id a committed reader of the whole topic waits at."""
    with core.kv.snapshot() as snapshot:
        held = visibility.first_uncommitted(snapshot, TransactionView(snapshot), core.topic("t"), now_ms=core.now_ms)
    return held.message_id if held is not None else None


def test_a_reference_never_grows() -> None:
    """What is stored after a publish belongs to the next one."""
    core, pointer = begun()
    store = Store(namespace=NAMESPACE, name="t", messages=[LoggedMessage(b"a")], pointer=pointer)
    core.batch(store, publish("t", pointer=pointer), store)
    assert core.read("t") == ["a"]
    core.do(publish("t", pointer=pointer))
    assert core.read("t") == ["a", "a"]


def test_an_abort_in_the_same_batch_as_the_publish() -> None:
    """Rows that settling could not find yet are found by its next round."""
    core, pointer = begun()
    core.batch(publish("t", "a", pointer=pointer), Abort(pointer=pointer), MarkAborted())
    assert core.read("t", committed=True) == []
    while core.do(MarkAborted()):
        continue
    assert core.read("t", committed=True) == []
    assert core.read("t") == ["a"]


def test_what_is_refused_leaves_nothing() -> None:
    """A producer inside, a forged range, a finished pointer."""
    core, pointer = begun()
    with pytest.raises(Refused):
        core.do(publish("t", "a", pointer=pointer, producer=producer(0)))
    with pytest.raises(Refused):
        core.do(Rollback(namespace=NAMESPACE, name="t", pointer=pointer, first=Position(1, 0), last=Position(2, 0)))
    core.do(Abort(pointer=pointer))
    with pytest.raises(Conflict):
        core.do(publish("t", "a", pointer=pointer))
    assert core.read("t") == []


def test_readers_wait_for_what_is_not_in_the_store_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publish in the batch of the rollback, or one beyond where it looks, stays undecided for all."""
    core, pointer = begun()
    answered = core.do(publish("t", "a", pointer=pointer))
    core.do(publish("t", "b"))
    undo = Rollback(namespace=NAMESPACE, name="t", pointer=pointer, first=answered.first, last=answered.last)
    core.batch(publish("t", "c", pointer=pointer), undo, publish("t", "d"))
    assert core.read("t", committed=True) == ["b"]
    assert waited_for(core) == core.page("t").ids[2]
    monkeypatch.setattr(publishing, "LOOK_AHEAD_ROWS_MAX", 1)
    core, pointer = begun()
    answered = core.do(publish("t", "a", pointer=pointer))
    core.batch(publish("t", "b", "b"), publish("t", "c", pointer=pointer))
    core.do(Rollback(namespace=NAMESPACE, name="t", pointer=pointer, first=answered.first, last=answered.last))
    assert waited_for(core) == core.page("t").ids[3]
