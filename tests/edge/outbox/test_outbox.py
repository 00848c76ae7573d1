"""What belongs to the outbox's vocabulary alone; its behaviour is in tests/conformance."""

from __future__ import annotations

import pytest

from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.outbox import Entry, Item, Reference
from fairlead_edge.outbox.queues import QueueId


@pytest.mark.parametrize(("expires", "live"), [(None, True), (10.1, True), (10.0, False), (9.0, False)])
def test_item_is_live_until_its_time_comes(expires: float | None, live: bool) -> None:
    assert Item(0, 1, "", 0, expires, b"").live(10.0) is live


def entry(size: int, *priorities: int) -> Entry:
    return Entry("", b"x" * size, tuple(Reference(QueueId("iothub", priority)) for priority in priorities))


def test_entries_with_the_same_references_are_stored_together_in_order() -> None:
    assert outbox.segments([entry(1, 0), entry(1, 5), entry(1, 0), entry(1, 0, 5)]) == [[0, 2], [1], [3]]
    half = outbox.SEGMENT_BYTES_MAX // 2
    assert outbox.segments([entry(half, 0), entry(half, 0), entry(1, 0)]) == [[0, 1], [2]]


def test_cost_and_urgency_of_a_request() -> None:
    entries = [entry(100, 0, 5), entry(50, 3)]
    assert outbox.cost(entries) == 150 + 3 * outbox.REFERENCE_BYTES
    assert outbox.least_urgent(entries) == 5
