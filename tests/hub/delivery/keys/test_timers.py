"""When keys are due."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.delivery.keys.timers import SLACK, Timers


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
