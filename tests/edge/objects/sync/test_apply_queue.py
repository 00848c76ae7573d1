"""Work taken in and not yet done: ordered, weighed, handed out in batches."""

from __future__ import annotations

from tests.support.edges.held import config_map, put

from fairlead_edge.objects.metastore import Remove
from fairlead_edge.objects.sync import apply_queue
from fairlead_edge.objects.sync.apply_queue import ApplyQueue, Query, QueuedChange
from fairlead_wire import message


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
    """Deletions have no content and weigh something all the same."""
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
    assert small.weight > 0 and count <= apply_queue.WORK_MAX
