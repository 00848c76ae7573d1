"""Work taken in and not yet done: ordered, weighed, handed out in batches."""

from __future__ import annotations

import pytest
from tests.support.edges.held import config_map, put

from fairlead_edge.objects import apply_queue
from fairlead_edge.objects.apply_queue import AckTracker, ApplyQueue, Arrived, Chunks, Query, QueuedChange
from fairlead_edge.objects.metastore import Absent, Remove, Unchanged, WriteRefused
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link.codec import CONTENT_BYTES_MAX


def write(id: int, *, size: int = 1) -> QueuedChange:
    document = config_map(f"n-{id}")
    document["data"]["k"] = "x" * size
    return QueuedChange(id, put(document))


def ids(batch: object) -> list[int]:
    assert isinstance(batch, list)
    return [each.id for each in batch]


def test_a_run_of_writes_is_one_batch_and_a_question_ends_it() -> None:
    """An answer is true for what came before it, and for nothing that came after."""
    work = ApplyQueue()
    question = Query(message.Compare(id=3, bits=0))
    for each in (write(1), write(2), question, write(4)):
        work.add(each)
    assert ids(work.take()) == [1, 2]
    assert work.take() == question
    assert ids(work.take()) == [4]
    assert work.take() is None


def test_a_batch_is_bounded_in_number_and_bytes() -> None:
    """The first answer of a batch waits for the last."""
    work = ApplyQueue()
    for id in range(apply_queue.BATCH_WRITES_MAX + 5):
        work.add(write(id))
    assert len(ids(work.take())) == apply_queue.BATCH_WRITES_MAX and len(ids(work.take())) == 5
    for id in range(3):
        work.add(write(id, size=apply_queue.BATCH_BYTES_MAX // 2 + 1))
    assert ids(work.take()) == [0, 1] and ids(work.take()) == [2]


def test_room_ends_with_bytes_or_number_and_comes_back() -> None:
    work = ApplyQueue()
    while work.has_room:
        work.add(write(1, size=1 << 20))
    work.take()
    assert work.has_room
    small = QueuedChange(1, Remove(resource=put(config_map("a")).resource, uid="u"))
    count = 0
    while work.has_room:
        work.add(small)
        count += 1
    assert small.weight > 0 and count <= apply_queue.QUEUE_LENGTH_MAX


# ---- updates in parts: in order, bounded, whole ---------------------------------------------------


def update(id: int, *, parts: int = 2, name: str = "a") -> message.Update:
    path = f"api/v1/namespaces/shop/configmaps/{name}"
    return message.Update(id=id, resource=path, uid="u", resource_version="1", digest="d", chunks=parts)


def part(id: int, index: int) -> message.Chunk:
    return message.Chunk(id=id, index=index)


def test_updates_may_arrive_side_by_side() -> None:
    held = Chunks()
    held.begin(update(1, name="a"))
    held.begin(update(2, name="b"))
    held.add(part(1, 0), b"a")
    held.add(part(2, 0), b"b")
    last = held.add(part(1, 1), b"a")
    assert isinstance(last, Arrived) and last.content == b"aa"


@pytest.mark.parametrize("index", [-1, 0, 2])
def test_a_gap_or_a_repetition_is_a_broken_peer(index: int) -> None:
    """Order holds within a session, so a wrong index is no accident of the link."""
    held = Chunks()
    held.begin(update(1, parts=3))
    held.add(part(1, 0), b"a")
    with pytest.raises(Malformed):
        held.add(part(1, index), b"b")


@pytest.mark.parametrize("parts", [0, -1, apply_queue.PARTS_MAX + 1])
def test_an_absurd_number_of_parts_is_refused_for_good(parts: int) -> None:
    """The announcement itself is bounded."""
    answer = Chunks().begin(update(1, parts=parts))
    assert isinstance(answer, WriteRefused) and answer.permanent and answer.code == "too_large"


def test_too_many_at_once_are_asked_to_come_back() -> None:
    held = Chunks()
    for id in range(apply_queue.UNFINISHED_MAX):
        assert held.begin(update(id, name=f"n{id}")) is None
    answer = held.begin(update(99, name="one-more"))
    assert isinstance(answer, WriteRefused) and not answer.permanent and answer.retry_after_seconds
    assert held.drop(update(0, name="n0").resource) == [0]
    assert held.begin(update(99, name="one-more")) is None


def test_an_object_over_the_limit_is_refused_and_forgotten() -> None:
    held = Chunks()
    half = b"x" * (CONTENT_BYTES_MAX // 2 + 1)
    held.begin(update(1, parts=3))
    held.add(part(1, 0), half)
    answer = held.add(part(1, 1), half)
    assert isinstance(answer, WriteRefused) and answer.permanent and answer.code == "too_large"
    assert held.add(part(1, 2), b"") is None


def test_all_of_them_together_are_bounded() -> None:
    held = Chunks()
    large = b"x" * (CONTENT_BYTES_MAX - 1)
    answers = []
    for id in (1, 2, 3):
        held.begin(update(id, name=f"n{id}"))
        answers.append(held.add(part(id, 0), large))
    assert [type(answer) for answer in answers] == [Arrived, Arrived, WriteRefused]
    assert isinstance(answers[2], WriteRefused) and not answers[2].permanent


# ---- what is acknowledged, singly or together: never more than is durable -------------------------


FULL = WriteRefused(code="store_full", reason="no room", permanent=False, retry_after_seconds=5.0)


@pytest.fixture
def receipts():
    made = AckTracker()
    for id in (1, 2, 3, 4):
        made.opened(id)
    return made


def acks(answers):
    return [(one.parent_id, one.cumulative) for one in answers if isinstance(one, message.Ack)]


def test_what_overtook_an_open_update_is_acked_by_itself(receipts):
    """2 still arrives in parts: nothing may say that it is durable."""
    assert acks(receipts.settled([(1, Unchanged()), (3, Unchanged()), (4, Absent())])) == [
        (1, True),
        (3, False),
        (4, False),
    ]
    assert acks(receipts.settled([(2, Unchanged())])) == [(2, True)]


def test_an_update_that_is_given_up_no_longer_bounds_the_acks(receipts):
    """A newer message for the same object came first."""
    receipts.refused(1, FULL)
    assert acks(receipts.settled([(2, Unchanged()), (3, Unchanged()), (4, Unchanged())])) == [(4, True)]
