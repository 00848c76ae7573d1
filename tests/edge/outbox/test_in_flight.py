"""What is out, what is in doubt, and when it stops being either."""

from __future__ import annotations

from fairlead_edge.outbox.queues import InFlight, QueueId

ONE, OTHER = QueueId("iothub", 1), QueueId("iothub", 2)


def test_what_is_out_is_spared_until_it_is_decided() -> None:
    """By queue."""
    out = InFlight()
    out.take(ONE, [1, 2, 3])
    assert out.spare(ONE, [0, 1, 2, 3, 4]) == [0, 4]
    assert out.spare(OTHER, [1]) == [1]
    out.decided(ONE, [1])
    out.give_back(ONE, [2])
    assert out.of(ONE) == {3} and out.of(OTHER) == frozenset()


def test_what_came_back_in_doubt_counts_when_it_ends_otherwise() -> None:
    """Not when it is decided after all, and once."""
    out = InFlight()
    out.take(ONE, [1, 2, 3])
    out.give_back(ONE, [1, 2], in_doubt=True)
    out.give_back(ONE, [3])
    out.decided(ONE, [1])
    for _ in range(2):
        out.ended(ONE, [1, 2, 3])
    assert out.ended_in_doubt[ONE] == 1
