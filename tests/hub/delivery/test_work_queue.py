"""The work queue: client-go's semantics, priorities, and keys that wait for their time."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.delivery.work_queue import WorkQueue


def test_a_key_is_queued_once():
    """Twenty changes of one object are one delivery."""
    queue = WorkQueue()
    for _ in range(20):
        queue.add("a", 5)
    assert queue.get(0) == "a"
    assert queue.get(0) is None


def test_a_key_in_work_comes_once_more_after_it_is_done():
    """Added while in flight: delivered once more, not at the same time."""
    queue = WorkQueue()
    queue.add("a", 5)
    assert queue.get(0) == "a"
    queue.add("a", 5)
    queue.add("a", 5)
    assert queue.get(0) is None
    queue.done("a")
    assert queue.get(0) == "a"
    queue.done("a")
    assert queue.get(0) is None


def test_urgent_keys_go_first_and_others_keep_their_order():
    """Within one priority first come, first served; a more urgent wish moves a key up."""
    queue = WorkQueue()
    for key, priority in (("a", 5), ("b", 5), ("c", 1), ("d", 5)):
        queue.add(key, priority)
    queue.add("d", 0)
    assert [queue.get(0) for _ in range(4)] == ["d", "c", "a", "b"]


def test_a_retry_waits_and_news_do_not():
    """A key that waits for its time is ready at once when it is added again."""
    queue = WorkQueue()
    queue.add_after("a", 5, 10.0)
    assert queue.get(9.9) is None
    assert queue.next_due() == 10.0
    assert queue.get(10.0) == "a"
    queue.done("a")
    queue.add_after("a", 5, 20.0)
    queue.add("a", 5)
    assert not queue.is_waiting("a")
    assert queue.get(11.0) == "a"
    queue.done("a")
    assert queue.next_due() is None
    assert queue.get(99.0) is None


def test_an_old_failure_does_not_delay_what_is_queued():
    """Something newer is queued: the retry's wait is void."""
    queue = WorkQueue()
    queue.add("a", 5)
    queue.add_after("a", 5, 100.0)
    assert queue.get(0) == "a"


@given(st.lists(st.tuples(st.sampled_from(["add", "after", "get", "done"]), st.sampled_from("abc"), st.integers(0, 3))))
def test_no_key_is_ever_worked_on_twice_at_once_nor_lost(moves):
    """Whatever happens: one at a time for each key, and everything added is handed out in the end."""
    queue, working, now, owed = WorkQueue(), set(), 0.0, set()
    for move, key, number in moves:
        now += 0.5
        if move == "add":
            queue.add(key, number)
            owed.add(key)
        elif move == "after":
            queue.add_after(key, number, now + number)
            owed.add(key)
        elif move == "get":
            taken = queue.get(now)
            if taken is not None:
                assert taken not in working
                working.add(taken)
                owed.discard(taken)
        elif working:
            finished = working.pop()
            queue.done(finished)
    for finished in working:
        queue.done(finished)
    seen = Counter()
    while (taken := queue.get(now + 100)) is not None:
        seen[taken] += 1
        queue.done(taken)
    assert owed <= seen.keys()
    assert all(count == 1 for count in seen.values())
    assert len(queue) == 0
