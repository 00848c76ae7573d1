"""One stream: its estimate of frame sizes, its checkpoint, and fetches that a failure made obsolete."""

from __future__ import annotations

from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.pump.stream import BATCH_BYTES_MAX, Stream
from fairlead_edge.outbox.queues import Checkpointer, QueueId
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.message import Nack

POLICY = DeliveryPolicy(
    retries_with_no_delay=0, minimum_delay_retries=0, minimum_delay=1, maximum_delay=1, backoff_retries=0,
    maximum_delay_retries=9,
)  # fmt: skip


def make_stream() -> Stream:
    return Stream(QueueId(UPSTREAM, 5), Checkpointer(), cursor=-1)


def leaves(line: Stream, batch: int, *offsets: int) -> None:
    """A batch of these is fetched and sent."""
    items = [Item(offset, 1, "t", 0.0, None, b"x") for offset in offsets]
    assert [item.offset for item in line.fetched(line.fetch(1 << 20), items, items, 0)] == list(offsets)
    line.send(batch, offsets)


BUSY = Nack(parent_id=1, code="busy", reason="")


def test_a_batch_that_packs_badly_is_believed_at_once_and_one_that_packs_well_slowly() -> None:
    """Too much on a slow link delays alarms; too little costs a round trip."""
    line = make_stream()
    assert line.fetch(4096).bytes_max == 4096 and line.frame_bytes(4096) == 4096
    line.packed(10_000, 1_000)
    assert 9_000 < line.frame_bytes(10_000) < 10_000
    for _ in range(100):
        line.packed(10_000, 1_000)
    assert 35_000 < line.fetch(4096).bytes_max < 42_000
    line.packed(10_000, 9_000)
    assert line.fetch(4096).bytes_max < 5_000
    for _ in range(200):
        line.packed(10_000_000, 1)
    assert line.fetch(1 << 30).bytes_max == BATCH_BYTES_MAX


def test_the_checkpoint_stays_below_what_is_not_done() -> None:
    line = make_stream()
    leaves(line, 1, 0, 1, 2)
    leaves(line, 2, 3, 4)
    leaves(line, 3, 5, 6, 7, 8, 9)
    assert line.acked(3, (5, 6, 7, 8, 9), 8, None) == -1
    assert line.acked(1, (0, 1, 2), 8, None) == 2
    line.nacked(2, BUSY, (), 0, None)
    assert line.conclude(POLICY, lambda: 0.5, 0)
    assert line.must_settle_first, "what is being settled lies above what goes again"
    line.settled(3)
    line.settled(1)
    assert not line.must_settle_first
    line.come_due()
    leaves(line, 4, 3, 4)
    assert line.acked(4, (3, 4), 8, None) == 4


def test_a_fetch_that_a_failure_overtook_is_void() -> None:
    line = make_stream()
    leaves(line, 1, 0)
    under_way = line.fetch(1 << 20)
    line.lost(1)
    read = [Item(1, 1, "t", 0.0, None, b"x")]
    assert line.fetched(under_way, read, read, 0) == ()
    assert line.has_more and line.fetch(1 << 20).after == -1


def test_nothing_leaves_while_answers_to_a_failure_are_out() -> None:
    line = make_stream()
    leaves(line, 1, 0)
    leaves(line, 2, 1)
    under_way = line.fetch(1 << 20)
    line.nacked(1, BUSY, (), 0, None)
    read = [Item(2, 1, "t", 0.0, None, b"x")]
    assert line.fetched(under_way, read, read, 0) == ()
    assert line.has_more and line.fetch(1 << 20).after == 1
