"""The order in which keys are sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.delivery.keys.work_queue import WorkQueue


def taken(queue, priorities):
    """Everything, in order."""
    found = []
    while (key := queue.first()) is not None:
        queue.remove(key, priorities[key])
        found.append(key)
    return found


def test_urgent_keys_go_first_and_others_keep_their_order():
    """Within one priority first come, first served; added again, a key keeps its place."""
    queue, priorities = WorkQueue(), {"a": 5, "b": 5, "c": 1, "d": 5, "e": 0}
    for key, priority in [*priorities.items(), ("a", 5)]:
        queue.add(key, priority)
    assert (len(queue), bool(queue)) == (5, True)
    assert taken(queue, priorities) == ["e", "c", "a", "b", "d"]
    assert (len(queue), bool(queue)) == (0, False)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=2), st.integers(-2, 2)))
def test_as_sorting_would_have_it(priorities):
    """By priority, then by arrival."""
    queue = WorkQueue()
    for key, priority in priorities.items():
        queue.add(key, priority)
    assert taken(queue, priorities) == sorted(priorities, key=priorities.__getitem__)


def test_it_says_what_is_most_urgent_and_how_much_of_it():
    """Without taking anything."""
    queue = WorkQueue()
    assert queue.first_priority() is None and queue.count(5) == 0
    queue.add("a", 5)
    queue.add("b", 1)
    queue.add("c", 1)
    assert (queue.first_priority(), queue.count(1), queue.count(5)) == (1, 2, 1)


def test_how_many_wait_of_each_priority():
    """For people; nothing of a priority that is done."""
    queue = WorkQueue()
    for key, priority in (("a", 0), ("b", 5), ("c", 5)):
        queue.add(key, priority)
    assert queue.counts() == {0: 1, 5: 2}
    queue.remove("a", 0)
    assert queue.counts() == {5: 2}
