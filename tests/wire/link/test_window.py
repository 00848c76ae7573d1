"""What is in flight, overdue and settled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_wire.errors import LocalError
from fairlead_wire.link.window import LAPSED_MAX, Window


@pytest.fixture
def window():
    return Window(messages_max=3, bytes_max=100)


def opened(window, *ids, size=10, now=0.0, timeout=5.0):
    for id in ids:
        window.open(id=id, token=f"t{id}", size=size, now=now, timeout=timeout)


def test_room_is_counted_in_messages_and_bytes(window):
    opened(window, 1, 2, 3)
    assert not window.has_room
    assert [entry.token for entry in window.settle(2)] == ["t2"]
    assert window.has_room
    opened(window, 4, size=90)
    assert not window.has_room


def test_one_message_is_always_allowed(window):
    assert window.has_room
    opened(window, 1, size=10_000)
    assert not window.has_room


def test_a_cumulative_ack_settles_all_before_it(window):
    opened(window, 1, 2, 3)
    assert [entry.id for entry in window.settle(2, cumulative=True)] == [1, 2]
    assert len(window) == 1


def test_duplicate_and_forged_acks_settle_nothing(window):
    opened(window, 1)
    assert len(window.settle(1)) == 1
    assert window.settle(1) == []
    assert window.settle(99) == []
    assert window.bytes == 0


def test_a_late_ack_still_counts(window):
    opened(window, 1)
    assert [entry.id for entry in window.lapse(5.0)] == [1]
    assert len(window) == 0
    assert [entry.token for entry in window.settle(1)] == ["t1"]


def test_progress_restarts_the_timer(window):
    """A large object on a thin line is not overdue while its parts arrive."""
    opened(window, 1)
    assert window.extend(1, now=4.0, timeout=5.0)
    assert window.lapse(8.0) == []
    assert window.next_deadline() == 9.0
    assert not window.extend(7, now=4.0, timeout=5.0)


def test_ids_only_rise(window):
    opened(window, 2)
    with pytest.raises(LocalError):
        opened(window, 2)


def test_lapsed_ids_are_bounded():
    window: Window[None] = Window(messages_max=10**6, bytes_max=10**9)
    opened(window, *range(1, LAPSED_MAX + 11), timeout=1.0)
    window.lapse(1.0)
    assert window.settle(10) == []
    assert len(window.settle(11)) == 1


@given(st.lists(st.tuples(st.sampled_from("soal"), st.integers(1, 30)), max_size=60))
def test_bytes_and_messages_always_agree_with_what_flies(moves):
    """Whatever happens, the window's account equals the sum of what is in flight."""
    window: Window[None] = Window(messages_max=5, bytes_max=50)
    next_id, now = 1, 0.0
    for move, number in moves:
        if move == "o" and window.has_room:
            window.open(id=next_id, token=None, size=number, now=now, timeout=3)
            next_id += 1
        elif move == "s":
            window.settle(number)
        elif move == "a":
            window.settle(number, cumulative=True)
        else:
            now += number / 10
            window.lapse(now)
        flying = window._flying.values()
        assert window.bytes == sum(entry.size for entry in flying)
        assert all(entry.deadline > now for entry in flying) or move != "l"
