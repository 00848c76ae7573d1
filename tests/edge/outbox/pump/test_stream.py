"""One priority: what packs well, what is wrong, where the checkpoint may stand."""

from __future__ import annotations

from fairlead_edge.outbox.pump.stream import BATCH_BYTES_MAX, Stream
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_edge.routes.sink import UPSTREAM
from fairlead_wire.message import Nack


def stream() -> Stream:
    return Stream(QueueId(UPSTREAM, 5), -1)


def test_a_batch_that_packs_badly_is_believed_at_once_and_one_that_packs_well_slowly() -> None:
    """Too much on a slow line costs the alarms; too little costs a round."""
    line = stream()
    assert line.content_bytes(4096) == 4096
    line.packed(10_000, 1_000)
    assert 0.9 < line.ratio < 1
    for _ in range(100):
        line.packed(10_000, 1_000)
    assert 35_000 < line.content_bytes(4096) < 42_000
    line.packed(10_000, 9_000)
    assert line.content_bytes(4096) < 5_000
    for _ in range(200):
        line.packed(10_000_000, 1)
    assert line.content_bytes(1 << 30) == BATCH_BYTES_MAX


def test_trouble_lasts_from_the_first_failure_to_the_first_success() -> None:
    """With the latest reason."""
    line = stream()
    assert line.trouble() is None
    line.failed(Nack(parent_id=1, code="one", reason="first"), 3.0)
    line.failed(Nack(parent_id=2, code="two", reason="second"), 9.0)
    trouble = line.trouble()
    assert trouble is not None and (trouble.since, trouble.code, trouble.reason) == (3.0, "two", "second")
    line.troubled_since = None
    assert line.trouble() is None


def test_the_checkpoint_stays_below_what_is_not_done() -> None:
    """Unanswered, failed, or to be fetched again."""
    line = stream()
    line.cursor = 9
    line.unanswered = {1: (0, 1, 2), 2: (3, 4)}
    assert line.commit((5, 6, 7, 8, 9)) == -1
    del line.unanswered[1]
    assert line.commit((0, 1, 2)) == 2
    line.failed_from = 3
    del line.unanswered[2]
    assert line.commit((4,)) == 2
    line.failed_from = None
    line.go_back(3)
    assert (line.cursor, line.waiting, line.turn) == (2, True, 1)
