"""The one writer: order within a batch, and what a failed write leaves behind."""

from __future__ import annotations

import pytest
from tests.sim.laws import LawBroken
from tests.sim.messaging_world import MessagingWorld
from tests.support.topics.messaging_core import NAMESPACE, Core, producer, publish

from fairlead_messaging.api.errors import NotFound, Refused
from fairlead_messaging.server.commands import CreateTopic, DeleteTopic, Publish, PublishedAt
from fairlead_messaging.server.log import keys, rows, running_totals
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.log.topic_log import PIECE_MESSAGES
from fairlead_messaging.server.transactions.commands import Rollback, Start


def test_a_deleted_topic_is_gone_within_the_same_batch() -> None:
    """Commands of one batch see each other in order."""
    core = Core()
    core.create("t")
    gone, refused, created = core.batch(
        DeleteTopic(namespace=NAMESPACE, name="t"),
        publish("t", "a"),
        CreateTopic(namespace=NAMESPACE, name="t", ttl_seconds=5, properties={}),
    )
    assert gone.generation == -1
    assert isinstance(refused, NotFound)
    assert created.generation == 2


def test_positions_are_not_given_out_twice_after_a_failed_write() -> None:
    """Whether it took place is unknown, so its positions stay burnt."""
    core = Core()
    core.create("t")
    core.batch(publish("t", "lost"), lost=True)
    kept: PublishedAt = core.do(publish("t", "kept"))
    assert kept.first is not None and kept.first.sequence == 1


def test_the_laws_notice_an_answer_before_the_write() -> None:
    """The simulated world (tests/sim, played with the others) can fail: the classic mistake breaks it every time."""
    for seed in range(5):
        with pytest.raises(LawBroken):
            MessagingWorld(seed, acks_before_write=True).run()


def test_a_rollback_marks_within_the_open_transaction() -> None:
    """Its rows are skipped at once, the rest still holds."""
    core = Core()
    core.create("t")
    pointer = core.do(Start(timeout_seconds=5)).transaction.pointer
    first = core.do(publish("t", "a", "b", pointer=pointer))
    core.do(publish("t", "plain"))
    core.do(Rollback(namespace=NAMESPACE, name="t", pointer=pointer, first=first.first, last=first.last))
    assert core.read("t", committed=True) == ["plain"]


# --- Publishing: contiguous rows, and what is known in the same batch.


def test_rows_of_one_request_are_contiguous() -> None:
    """First and last position are the request's own."""
    core = Core()
    core.create("t")
    one, two = core.batch(publish("t", "a", "b"), publish("t", "c"))
    assert one.first < one.last < two.first == two.last
    assert core.read("t") == ["a", "b", "c"]


def test_a_repeat_within_one_batch_is_known() -> None:
    """The second of two concurrent retries is answered so, and both are durable together."""
    core = Core()
    core.create("t")
    one, two = core.batch(publish("t", "a", producer=producer(3)), publish("t", "a", producer=producer(3)))
    assert (one.stored, two.known) == ((3,), (3,))
    assert core.read("t") == ["a"]


def test_a_lost_batch_is_not_known() -> None:
    """After a failed write the retry stores; nothing of the failed one is remembered."""
    core = Core()
    core.create("t")
    core.batch(publish("t", "a", producer=producer(0)), lost=True)
    assert core.do(publish("t", "a", producer=producer(0))).stored == (0,)
    assert core.read("t") == ["a"]


def test_what_cannot_be_published() -> None:
    """No topic, or one that wants transactions."""
    core = Core()
    with pytest.raises(NotFound):
        core.do(publish("t", "a"))
    core.create("t", transactional="required")
    with pytest.raises(Refused):
        core.do(publish("t", "a"))


@pytest.mark.parametrize("count", [1, 2, PIECE_MESSAGES, PIECE_MESSAGES + 1])
def test_however_many_messages_a_request_has(count: int) -> None:
    """One by one, in columns, in several pieces: the same rows, in order, without a gap, each with its own ttl."""
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
