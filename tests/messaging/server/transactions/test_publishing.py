"""Store, publish by reference and roll back, seen from the rows."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, producer, publish

from fairlead_messaging.api.errors import Conflict, Refused, Unavailable
from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server import retention
from fairlead_messaging.server.commands import Publish, PublishedAt, RemoveRows, UpdateTopic
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.transactions import manager, publishing, visibility
from fairlead_messaging.server.transactions.commands import Abort, MarkAborted, Rollback, Store
from fairlead_messaging.server.transactions.transaction import TransactionView


def begun() -> tuple[Core, int]:
    core = Core()
    core.create("t")
    return core, core.start(5)


def waited_for(core: Core) -> bytes | None:
    """The id a committed reader of the whole topic waits at."""
    with core.kv.snapshot() as snapshot:
        held = visibility.first_uncommitted(snapshot, TransactionView(snapshot), core.topic("t"), now_ms=core.now_ms)
    return held.message_id if held is not None else None


def test_a_reference_never_grows() -> None:
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


# --- Rolling back: what may be rolled back, in pieces, and what waits for it.


class Writing:
    """A transaction in a topic."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.pointer: int = core.start(60)

    def publish(self, *payloads: str) -> Rollback:
        """What takes it back."""
        answer: PublishedAt = self.core.do(publish("t", *payloads, pointer=self.pointer))
        assert answer.first is not None and answer.last is not None
        return self.detail(answer.first, answer.last)

    def detail(self, first: Position, last: Position) -> Rollback:
        return Rollback(namespace=NAMESPACE, name="t", pointer=self.pointer, first=first, last=last)

    def commit(self) -> None:
        self.core.commit(self.pointer)


def test_it_is_done_in_pieces_and_a_commit_waits(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "SETTLE_ROWS_MAX", 10)
    writing = Writing(core)
    taken_back = writing.publish(*["x"] * 35)
    writing.publish("kept")
    core.do(taken_back)
    with pytest.raises(Unavailable, match="rollback"):
        writing.commit()
    core.do(taken_back)  # asked again: it is under way
    with pytest.raises(Unavailable):
        core.do(writing.detail(taken_back.first, taken_back.first))
    pieces = 0
    while core.service.transactions.rolling:
        core.do(MarkAborted())
        core.restart()
        pieces += 1
    assert pieces >= 3
    writing.commit()
    assert core.read("t", committed=True) == ["kept"]


def test_large_rows_make_small_pieces(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "SETTLE_BYTES_MAX", 1000)
    writing = Writing(core)
    core.do(writing.publish(*["x" * 600] * 10))
    assert len(core.service.transactions.rolling) == 1


def test_an_end_that_is_no_commit_ends_the_rollback(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "SETTLE_ROWS_MAX", 10)
    writing = Writing(core)
    core.do(writing.publish(*["x"] * 35))
    core.do(Abort(pointer=writing.pointer))
    assert core.service.transactions.rolling == []
    while core.do(MarkAborted()):
        continue
    assert core.read("t", committed=True) == []


def test_only_what_was_given_out(core: Core) -> None:
    writing, other = Writing(core), Writing(core)
    detail, foreign = writing.publish("a"), other.publish("b")
    for first, last in (
        (foreign.first, foreign.last),
        (detail.first, foreign.last),
        (Position(1, 1), detail.last),
        (detail.last, Position(detail.last.timestamp + 1, 0)),
    ):
        with pytest.raises(Refused):
            core.do(writing.detail(first, last))
    writing.commit()
    with pytest.raises(Conflict):
        core.do(detail)
    with pytest.raises(Refused):
        core.do(Rollback(namespace=NAMESPACE, name="t", pointer=7, first=detail.first, last=detail.last))


def test_rows_of_others_between_are_not_touched(core: Core) -> None:
    writing = Writing(core)
    first = writing.publish("mine")
    core.do(Publish(namespace=NAMESPACE, name="t", messages=publish("t", "theirs").messages))
    last = writing.publish("mine too")
    core.do(writing.detail(first.first, last.last))
    writing.commit()
    assert core.read("t", committed=True) == ["theirs"]


def test_what_expired_while_the_topics_ttl_was_shorter(core: Core) -> None:
    """The ttl of today does not matter: the detail was given out, whatever became of its rows."""
    writing = Writing(core)
    gone, second = writing.publish("a", "b"), writing.publish("c")
    set_ttl(core, 1)
    core.now_ms += 2000
    living = writing.publish("d")
    with core.kv.snapshot() as snapshot:
        core.do(RemoveRows(batch=retention.sweep(snapshot, core.topic("t"), core.now_ms).batch))
    set_ttl(core, 1000)
    assert core.read("t") == ["d"]
    for detail in (gone, second, living):
        core.do(detail)
    with pytest.raises(Refused):
        core.do(writing.detail(Position(1, 1), gone.last))
    core.do(Abort(pointer=writing.pointer))
    core.do(gone)


def set_ttl(core: Core, seconds: int) -> None:
    core.do(UpdateTopic(namespace=NAMESPACE, name="t", ttl_seconds=seconds, properties={}))
