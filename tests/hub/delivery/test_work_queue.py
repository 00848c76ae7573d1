"""The order in which keys are sent, and when they are due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.delivery.work_queue import SLACK, Timers, WorkQueue


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


def test_keys_are_taken_once_when_their_time_has_come():
    """Earliest first; what is not due stays."""
    timers = Timers[str]()
    for key, due in (("late", 9.0), ("b", 2.0), ("a", 1.0)):
        timers.set(key, due)
    assert timers.next() == 1.0
    assert timers.due(2.0) == ["a", "b"] and timers.due(2.0) == []
    assert len(timers) == 1 and timers.next() == 9.0


def test_a_later_time_replaces_the_earlier():
    """And a cancelled one is none."""
    timers = Timers[str]()
    timers.set("a", 1.0)
    timers.set("a", 5.0)
    assert timers.due(4.0) == [] and timers.next() == 5.0
    timers.cancel("a")
    timers.cancel("a")
    assert timers.next() is None and timers.due(9.0) == []


def test_what_was_called_off_takes_no_room():
    """A key that is set and cancelled all day, each time for next year."""
    timers = Timers[str]()
    for number in range(1000):
        timers.set("a", 1e9 + number)
    assert len(timers._heap) <= 2 + SLACK


@given(st.lists(st.tuples(st.sampled_from(["set", "cancel", "due"]), st.sampled_from("abc"), st.integers(0, 9))))
def test_as_a_plain_table_would_have_it(moves):
    """Whatever happens: exactly the keys whose last time has come."""
    timers, table = Timers[str](), {}
    for move, key, number in moves:
        if move == "set":
            timers.set(key, number)
            table[key] = number
        elif move == "cancel":
            timers.cancel(key)
            table.pop(key, None)
        else:
            expected = {each for each, due in table.items() if due <= number}
            assert set(timers.due(number)) == expected
            for each in expected:
                del table[each]
        assert timers.next() == min(table.values(), default=None)
        assert len(timers) == len(table)
