"""Totals beside the outbox: whole or not believed."""

from __future__ import annotations

import pytest

from fairlead_edge.outbox import totals
from fairlead_edge.outbox.totals import SLOT_BYTES, OutboxTotals, QueueTotals


def some(commits: int, **changes: int) -> OutboxTotals:
    counts = {"next_offset": 9, "checkpoint": 3, "accepted": 9, "sent": 4, "expired": 1, "evicted": 0, "damaged": 1}
    return OutboxTotals(
        commits, (QueueTotals(id=1, endpoint="iothub", priority=0, topic="d/t", **{**counts, **changes}),)
    )


def test_the_newest_whole_slot_counts() -> None:
    """The other slot has the state one commit earlier, whatever happened to this one."""
    older, newer = totals.encode(some(4)), totals.encode(some(5))
    assert totals.decode(newer.ljust(SLOT_BYTES, b"\0") + older) == some(5)
    assert totals.decode(newer[:-5].ljust(SLOT_BYTES, b"\0") + older) == some(4)
    assert totals.decode(b"") is None


def test_every_flipped_byte_is_noticed() -> None:
    whole = totals.encode(some(5))
    for at in range(len(whole) - 1):
        spoilt = whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :]
        assert totals.decode(spoilt) in (None, some(5)), at


def test_too_many_queues_are_no_error() -> None:
    """Then nothing is kept beside the store."""
    queue = some(1).queues[0]
    assert totals.encode(OutboxTotals(1, (queue,) * 2000)) == b""


@pytest.mark.parametrize(
    "changes", [{"sent": -1}, {"sent": 99}, {"checkpoint": 9}, {"checkpoint": -2}, {"next_offset": 1 << 60}]
)
def test_totals_that_cannot_be_are_not_believed(changes: dict[str, int]) -> None:
    """A store that was damaged unnoticed may have written them."""
    assert totals.decode(totals.encode(some(5, **changes)).ljust(SLOT_BYTES, b"\0") + totals.encode(some(4))) == some(4)
