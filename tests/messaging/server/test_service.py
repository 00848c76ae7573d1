"""The one writer: order within a batch, and what a failed write leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.laws import LawBroken
from tests.sim.messaging_world import MessagingWorld
from tests.support.topics.messaging_core import NAMESPACE, Core, answers_as_typed, producer, publish

from fairlead_messaging.api.errors import NotFound, Refused
from fairlead_messaging.api.message_id import FIRST
from fairlead_messaging.server import topic_states
from fairlead_messaging.server.commands import (
    CreateTopic,
    DeleteTopic,
    Publish,
    PublishedAt,
    RecordReaderPosition,
    RemoveRows,
    UpdateTopic,
)
from fairlead_messaging.server.log import keys, rows, running_totals
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.log.topic_log import PIECE_MESSAGES
from fairlead_messaging.server.store.ordered_kv import Batch
from fairlead_messaging.server.topic_states import TopicStates
from fairlead_messaging.server.transactions.commands import (
    Abort,
    Commit,
    ExpireTransactions,
    Invalidate,
    MarkAborted,
    PruneTransactions,
    RenewTransaction,
    Rollback,
    Start,
    Store,
)


def test_a_deleted_topic_is_gone_within_the_same_batch(core: Core) -> None:
    gone, refused, created = core.batch(
        DeleteTopic(namespace=NAMESPACE, name="t"),
        publish("t", "a"),
        CreateTopic(namespace=NAMESPACE, name="t", ttl_seconds=5, properties={}),
    )
    assert gone.generation == -1
    assert isinstance(refused, NotFound)
    assert created.generation == 2


def test_positions_are_not_given_out_twice_after_a_failed_write(core: Core) -> None:
    """Whether it took place is unknown, so its positions stay burnt."""
    core.batch(publish("t", "lost"), lost=True)
    kept: PublishedAt = core.do(publish("t", "kept"))
    assert kept.first is not None and kept.first.sequence == 1


def test_the_laws_notice_an_answer_before_the_write() -> None:
    """The simulated world (tests/sim, played with the others) can fail: the classic mistake breaks it every time."""
    for seed in range(5):
        with pytest.raises(LawBroken):
            MessagingWorld(seed, acks_before_write=True).run()


def test_a_rollback_marks_within_the_open_transaction(core: Core) -> None:
    pointer = core.start(5)
    first = core.do(publish("t", "a", "b", pointer=pointer))
    core.do(publish("t", "plain"))
    core.do(Rollback(namespace=NAMESPACE, name="t", pointer=pointer, first=first.first, last=first.last))
    assert core.read("t", committed=True) == ["plain"]


# --- Publishing: contiguous rows, and what is known in the same batch.


def test_rows_of_one_request_are_contiguous(core: Core) -> None:
    one, two = core.batch(publish("t", "a", "b"), publish("t", "c"))
    assert one.first < one.last < two.first == two.last
    assert core.read("t") == ["a", "b", "c"]


def test_a_repeat_within_one_batch_is_known(core: Core) -> None:
    one, two = core.batch(publish("t", "a", producer=producer(3)), publish("t", "a", producer=producer(3)))
    assert (one.stored, two.known) == ((3,), (3,))
    assert core.read("t") == ["a"]


def test_a_lost_batch_is_not_known(core: Core) -> None:
    core.batch(publish("t", "a", producer=producer(0)), lost=True)
    assert core.do(publish("t", "a", producer=producer(0))).stored == (0,)
    assert core.read("t") == ["a"]


def test_what_cannot_be_published() -> None:
    core = Core()
    with pytest.raises(NotFound):
        core.do(publish("t", "a"))
    core.create("t", transactional="required")
    with pytest.raises(Refused):
        core.do(publish("t", "a"))


@pytest.mark.parametrize("count", [1, 2, PIECE_MESSAGES, PIECE_MESSAGES + 1])
def test_however_many_messages_a_request_has(count: int) -> None:
    core = Core()
    topic = core.create("t", ttl_seconds=500)
    messages = [b"%d" % number if number % 3 else LoggedMessage(b"%d" % number, 7) for number in range(count)]
    published = core.do(Publish(namespace=NAMESPACE, name="t", messages=messages))
    with core.kv.snapshot() as snapshot:
        prefix = keys.table(keys.MESSAGE, topic)
        stored = [(key[-10:], rows.decode(value)) for key, value in snapshot.scan(prefix, keys.above(prefix))]
        expiry = keys.table(keys.EXPIRY, topic)
        indexed = [key[-10:] for key, _ in snapshot.scan(expiry, keys.above(expiry))]
        total = running_totals.everything(snapshot, topic)
    assert [(row.payload, row.ttl_seconds) for _, row in stored] == [
        (b"%d" % number, 0 if number % 3 else 7) for number in range(count)
    ]
    assert (stored[0][0], stored[-1][0]) == (published.first.encode(), published.last.encode())
    assert int.from_bytes(stored[-1][0], "big") - int.from_bytes(stored[0][0], "big") == count - 1
    assert indexed == [position for position, row in stored if row.ttl_seconds]
    assert total == (count, sum(len(row.payload) for _, row in stored))


def test_each_command_on_a_topic_is_answered_by_its_type() -> None:
    """The type in ``Command[T]`` is a promise to callers that no checker sees behind the writer's table."""
    core = Core()
    topic: dict[str, Any] = {"namespace": NAMESPACE, "name": "t"}
    answers_as_typed(core, CreateTopic(**topic, ttl_seconds=9, properties={}))
    answers_as_typed(core, publish("t", "a"))
    answers_as_typed(core, UpdateTopic(**topic, ttl_seconds=8, properties={}))
    answers_as_typed(core, RecordReaderPosition(**topic, reader="r", position=FIRST, generation=None))
    answers_as_typed(core, RemoveRows(batch=Batch()))
    answers_as_typed(core, DeleteTopic(**topic))


def test_each_command_on_transactions_is_answered_by_its_type(core: Core) -> None:
    answers_as_typed(core, Start(timeout_seconds=30))
    one, two, three = (core.start() for _ in range(3))
    answers_as_typed(core, RenewTransaction(pointer=one))
    answers_as_typed(core, Store(namespace=NAMESPACE, name="t", messages=[LoggedMessage(b"a")], pointer=one))
    published = core.do(publish("t", pointer=one))
    answers_as_typed(
        core, Rollback(namespace=NAMESPACE, name="t", pointer=one, first=published.first, last=published.last)
    )
    answers_as_typed(core, Commit(pointer=one, changes=[]))
    answers_as_typed(core, Abort(pointer=two))
    answers_as_typed(core, Invalidate(pointer=three))
    for command in (ExpireTransactions(), MarkAborted(), PruneTransactions()):
        answers_as_typed(core, command)


# --- What the writer remembers of topics.


def test_a_topic_is_read_once_and_again_after_a_failed_batch(core: Core) -> None:
    core.batch(publish("t", "lost"), lost=True)
    core.do(publish("t", "kept"))
    states = TopicStates(core.kv)
    assert states.of((NAMESPACE, "t")) is states.of((NAMESPACE, "t"))
    assert states.living((NAMESPACE, "t")).generation == 1
    before = states.of((NAMESPACE, "t"))
    first = before.log.sequencer.next(core.now_ms)
    states.advance((NAMESPACE, "t"))
    states.forget()
    after = states.of((NAMESPACE, "t"))
    assert after is not before
    assert after.log.sequencer.next(core.now_ms) > first


def test_not_more_are_remembered_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_states, "TOPICS_CACHED_MAX", 2)
    core = Core()
    for name in ("a", "b", "c"):
        core.create(name)
        core.do(publish(name, name))
    assert [core.read(name) for name in ("a", "b", "c")] == [["a"], ["b"], ["c"]]
