"""How far tables are, as the hub said last, and what follows for a message."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from fairlead_edge.outbox.receipts import receipt
from fairlead_edge.outbox.receipts.departure import DepartedMessage, Departure
from fairlead_wire import message


def at(number: int) -> str:
    """A position."""
    return f"{number:020x}" + "0" * 20 if number else ""


def said(position: int, *, start: int = 0, rowless: int | None = 0, generation: int = 1) -> message.TopicTables:
    table = message.TableReached(reader="r", table="x", start=at(start), position=at(position), rowless=rowless)
    return message.TopicTables(topic="n/t", service="s", generation=generation, readers=[table])


def entry(position: int, *, is_exact: bool = True) -> DepartedMessage:
    return DepartedMessage(b"", 0.0, at(position), is_exact)


def test_a_table_has_what_it_read_beyond() -> None:
    topic = receipt.updated(None, said(5), 1.0)
    [table] = topic.tables
    assert [receipt.has_taken(entry(number), table) for number in (4, 5, 6)] == [True, True, False]
    assert not receipt.has_taken(entry(0), table), "a position that is not known"


def test_a_table_that_began_later_has_nothing_of_before() -> None:
    """Nor a message of which only an upper bound is known: it may stand before the start."""
    [table] = receipt.updated(None, said(9, start=5), 1.0).tables
    assert [receipt.has_taken(entry(number), table) for number in (5, 6, 9)] == [False, True, True]
    assert not receipt.has_taken(entry(6, is_exact=False), table)
    [whole] = receipt.updated(None, said(9), 1.0).tables
    assert receipt.has_taken(entry(6, is_exact=False), whole)


def test_a_row_is_certain_while_nothing_was_set_aside() -> None:
    """From the first word on, as long as the count of messages without a row stands still."""
    first = receipt.updated(None, said(3), 1.0)
    second = receipt.updated(first, said(6), 2.0)
    third = receipt.updated(second, said(9, rowless=1), 3.0)
    fourth = receipt.updated(third, said(12, rowless=1), 4.0)
    rows = [
        [receipt.has_row(entry(number), topic.tables[0]) for number in (3, 5, 8, 11)]
        for topic in (first, second, third, fourth)
    ]
    assert rows == [
        [False, False, False, False],
        [False, True, False, False],
        [False, False, False, False],
        [False, False, False, True],
    ]
    assert not receipt.has_row(entry(11, is_exact=False), fourth.tables[0])
    [silent] = receipt.updated(fourth, said(15, rowless=None), 5.0).tables
    assert not receipt.has_row(entry(14), silent)


def test_a_table_that_went_back_has_less() -> None:
    """The latest word counts, and rows are certain anew from there only."""
    first = receipt.updated(None, said(9), 1.0)
    second = receipt.updated(first, said(3), 2.0)
    assert [table.reader for table in receipt.went_back(first, second)] == ["r"]
    assert not receipt.has_taken(entry(8), second.tables[0])
    third = receipt.updated(second, said(9), 3.0)
    assert not list(receipt.went_back(second, third))
    assert not receipt.has_row(entry(2), third.tables[0]) and receipt.has_row(entry(8), third.tables[0])


def test_a_topic_made_anew_is_another_one() -> None:
    """Positions of the old one are compared with nothing."""
    topic = receipt.updated(receipt.updated(None, said(9), 1.0), said(3, generation=2), 2.0)
    old = Departure(outcome="in_topic", left_at=0.0, topic="n/t", service="s", generation=1, epoch=1, low=7, high=7)
    assert not receipt.is_of(old, topic)
    assert not list(receipt.went_back(receipt.updated(None, said(9), 1.0), topic))


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3), st.booleans()), min_size=1, max_size=12))
def test_no_row_is_claimed_that_there_is_not(words: list[tuple[int, int, bool]]) -> None:
    """Against a job that sets aside the last message of each stretch it says so of."""
    topic: receipt.TopicReach | None = None
    position, rowless, aside = 0, 0, set[int]()
    for step, _, sets_aside in words:
        position += step
        if sets_aside:
            aside.add(position)
            rowless += 1
        topic = receipt.updated(topic, said(position, rowless=rowless), 1.0)
        for number in range(1, position + 5):
            has_row = receipt.has_row(entry(number), topic.tables[0])
            assert not has_row or (number <= position and number not in aside)
