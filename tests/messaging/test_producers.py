"""Intervals against a plain set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.messaging_core import producer

from fairlead_messaging import producers
from fairlead_messaging.errors import Conflict, Refused
from fairlead_messaging.producers import Epochs, Intervals, Known, TooManyGaps


@given(st.lists(st.integers(0, 60)), st.integers(0, 61))
def test_intervals_are_a_set(numbers: list[int], asked: int) -> None:
    """Whatever the order; neighbours join; nothing changes on the way to disk and back."""
    intervals = Intervals()
    for number in numbers:
        intervals.add(number)
    again = Intervals(intervals.encode())
    expected = set(numbers)
    assert (asked in intervals) == (asked in again) == (asked in expected)
    assert len(intervals) == sum(1 for number in expected if number + 1 not in expected)


def test_large_numbers() -> None:
    """Random 53-bit epochs and long-lived sequences fit."""
    intervals = Intervals()
    intervals.add(2**63 - 1)
    assert 2**63 - 1 in Intervals(intervals.encode())


def test_split_stores_a_number_once() -> None:
    """Also when the request itself repeats it."""
    known = Known()
    known.intervals.add(1)
    assert known.split((0, 1, 2, 2)) == ([0, 2], [1, 3])


def test_too_many_gaps_are_refused_for_now() -> None:
    """Rather than forgotten, which would let duplicates in."""
    known = Known()
    known.intervals._lows = list(range(0, 2 * producers.INTERVALS_MAX, 2))
    known.intervals._highs = list(known.intervals._lows)
    with pytest.raises(TooManyGaps):
        known.check_room(5)


def test_epochs() -> None:
    """Older ones are welcome until a newer one fences."""
    epochs = Epochs()
    assert epochs.note(producer(0, epoch=5))
    epochs.check(producer(0, epoch=3))
    assert not epochs.note(producer(0, epoch=3))
    with pytest.raises(Conflict):
        epochs.check(producer(0, epoch=3, fence=True))
    epochs.note(producer(0, epoch=5, fence=True))
    for again in (epochs, Epochs(epochs.encode())):
        with pytest.raises(Conflict):
            again.check(producer(0, epoch=4))
        again.check(producer(0, epoch=5))


def test_one_number_for_each_message() -> None:
    """Consecutive from the first, or one each."""
    made = producers.make(producer_id="p", epoch=0, sequence=7, sequences=None, fence=False, messages=3)
    assert made.sequences == (7, 8, 9)
    with pytest.raises(Refused, match="2 numbers for 3"):
        producers.make(producer_id="p", epoch=0, sequence=None, sequences=[1, 2], fence=False, messages=3)
