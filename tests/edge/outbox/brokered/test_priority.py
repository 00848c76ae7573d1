"""One priority of a brokered endpoint: leases, waits, the checkpoint."""

from __future__ import annotations

from fairlead_edge.outbox.brokered import priority as module
from fairlead_edge.outbox.brokered.priority import TRANSITIONS, DeliveryEvent, DeliveryState, Priority
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queues import NOTHING_DONE, Attempt, QueueId
from fairlead_wire.delivery_policy import DeliveryPolicy

QUEUE = QueueId("edge-1/m/in", 2)
POLICY = DeliveryPolicy(
    retries_with_no_delay=0, minimum_delay_retries=1, minimum_delay=5, maximum_delay=5, backoff_retries=0,
    maximum_delay_retries=0,
)  # fmt: skip


def read(*offsets: int, expires: float | None = None) -> list[tuple[Item, str]]:
    return [(Item(offset, 1, "", 0, expires, b"x" * 10), f"id-{offset}") for offset in offsets]


def take(priority: Priority, *offsets: int, now: float = 0.0, most: int = 10) -> list[int]:
    """What a module gets from a log with these offsets."""
    given: list[Attempt] = []
    while (fetch := priority.wanted(now, most - len(given))) is not None:
        found = [each for each in offsets if each in (fetch.only or offsets) and each > fetch.after]
        answer = read(*found[: fetch.messages_max])
        given += priority.fetched(fetch, answer, now, messages_max=most - len(given), lease_seconds=60)
        if len(given) == most:
            break
    return [attempt.offset for attempt in given]


def uniform() -> float:
    return 0.5


def test_each_is_given_out_once_and_in_order() -> None:
    priority = Priority(QUEUE)
    assert take(priority, 0, 1, 2, most=2) == [0, 1]
    assert take(priority, 0, 1, 2) == [2]
    assert priority.wanted(0, 10) is None
    priority.appended()
    assert take(priority, 0, 1, 2, 3) == [3]
    assert (priority.leased, priority.retrying, priority.next_time(0)) == (4, 0, 60)


def test_checkpoint_passes_nothing_that_is_not_done() -> None:
    """Neither leased messages nor settlements that are not durable, in whatever order they are written."""
    priority = Priority(QUEUE)
    take(priority, *range(4))
    second = priority.acked([1, 2])
    assert second.checkpoint == -1
    first = priority.acked([0])
    assert first.checkpoint == 0, "1 and 2 are not durable yet"
    priority.settled(second)
    priority.settled(first)
    last = priority.acked([3])
    assert last.checkpoint == 3
    priority.settle_failed(last)
    assert priority.offset_of("id-3") == 3


def test_failed_message_waits_and_is_given_up_at_last() -> None:
    priority = Priority(QUEUE)
    take(priority, 7)
    waiting = priority.abandoned(7, 1, POLICY, uniform)
    assert waiting is not None and (waiting.until, waiting.leased, waiting.waited_seconds) == (6, False, 5)
    assert priority.wanted(5.9, 10) is None
    fetch = priority.wanted(6, 10)
    assert fetch is not None and fetch.only == (7,)
    [again] = priority.fetched(fetch, read(7), 6, messages_max=10, lease_seconds=60)
    assert again.number == 2
    assert priority.expire_leases(65.9, POLICY, uniform) == ([], [])
    assert priority.expire_leases(66, POLICY, uniform) == ([], [7])
    settle = priority.given_up([7], module.LEASE_ENDED)
    assert settle.refused[0].reason == "delivered 2 times; the last time its lease ended without an acknowledgement"
    assert settle.checkpoint == 7
    priority.settled(settle)
    assert priority.attempts() == [] and priority.offset_of("id-7") is None


def test_message_that_vanished_while_it_waited_is_forgotten() -> None:
    """Expired, evicted or damaged messages must not block the checkpoint."""
    priority = Priority(QUEUE)
    take(priority, 0, 1)
    priority.abandoned(0, 0, POLICY, uniform)
    fetch = priority.wanted(5, 10)
    assert fetch is not None
    assert priority.fetched(fetch, [], 5, messages_max=10, lease_seconds=60) == []
    assert priority.acked([1]).checkpoint == 1


def test_restart_goes_on_where_it_was() -> None:
    """Leases and waits continue, and messages without a recorded attempt are found, even between others."""
    kept = [
        Attempt(offset=2, id="id-2", number=1, leased=True, until=60),
        Attempt(offset=4, id="id-4", number=3, leased=False, until=9),
    ]
    priority = Priority(QUEUE, 1, kept)
    assert take(priority, 2, 3, 4, 5, now=1) == [3, 5]
    assert take(priority, 2, 3, 4, 5, now=9) == [4]
    assert [each.number for each in priority.attempts() if each.offset == 4] == [4]


def test_checkpoint_moves_after_a_restart_without_reading_again() -> None:
    kept = [Attempt(offset=offset, id=f"id-{offset}", number=1, leased=True, until=60) for offset in (0, 1, 3)]
    priority = Priority(QUEUE, -1, kept)
    assert [priority.acked([offset]).checkpoint for offset in (1, 0)] == [-1, 0], "1 is not durable yet"
    assert priority.acked([3]).checkpoint == -1, "2 was never noted"


def test_withdrawn_message_costs_no_attempt() -> None:
    priority = Priority(QUEUE)
    take(priority, 0)
    attempt = priority.withdrawn(0, 1)
    assert attempt is not None and (attempt.number, attempt.leased, attempt.until) == (0, False, 1)
    assert take(priority, 0, now=1) == [0]
    assert [each.number for each in priority.attempts()] == [1]


def test_unsettled_messages_are_bounded() -> None:
    kept = [
        Attempt(offset=offset, id=f"id-{offset}", number=1, leased=False, until=100)
        for offset in range(module.UNSETTLED_MAX)
    ]
    priority = Priority(QUEUE, -1, kept)
    assert priority.wanted(0, 10) is None
    assert priority.wanted(100, 10) is not None


def test_message_acked_while_it_is_read_after_a_restart_is_not_given_out() -> None:
    """Its lease was read from disk, and its ack became durable during another module's read."""
    priority = Priority(QUEUE, NOTHING_DONE, [Attempt(offset=0, id="id-0", number=1, leased=True, until=60.0)])
    fetch = priority.wanted(1.0, 10)
    assert fetch is not None
    priority.settled(priority.acked([0]))
    given = priority.fetched(fetch, read(0, 1), 1.0, messages_max=10, lease_seconds=60)
    assert [each.offset for each in given] == [1]


def test_what_is_over_takes_nothing_more() -> None:
    assert not [state for state, _ in TRANSITIONS if state in (DeliveryState.DONE, DeliveryState.DEAD)]
    assert [event for state, event in TRANSITIONS if state is DeliveryState.WAITING] == [DeliveryEvent.TAKE]
