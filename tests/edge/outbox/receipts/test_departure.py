"""Pages of what left: who is in them, and where each stands."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.receipts.departure import (
    DepartedMessage,
    Departure,
    among,
    bits,
    departures,
    entry,
    index_of,
    is_upto,
    nth,
    pages,
)
from fairlead_edge.outbox.receipts.marks import SPAN_MAX
from fairlead_wire import message

FIRST = "000001a206956dfa" + "fffe" + "0" * 20
NEWEST = "000001a206956dfb" + "0005" + "0" * 20


def item(number: int, topic: str = "n/t", epoch: int = 1) -> Item:
    return Item(number, epoch, topic, float(number), None, b"{}")


def place(index: int, first: str = FIRST, newest: str = NEWEST, generation: int = 2) -> message.TopicPosition:
    return message.TopicPosition(index=index, service="s", generation=generation, first=first, newest=newest)


def find(page: Departure, offset: int) -> DepartedMessage | None:
    index = index_of(page, offset)
    return None if index is None else entry(page, index, author=b"auth", enqueued=1.0)


def test_each_message_of_a_batch_stands_where_it_was_stored() -> None:
    items = [item(0), item(1, "n/u"), item(2), item(3), item(4, epoch=2)]
    ack = message.Ack(
        parent_id=1,
        refused=[message.RefusedItem(index=2, code="x", reason="")],
        positions=[place(0), place(4, first="")],
    )
    found = departures(items, ack, now=9.0)
    assert [(each.topic, each.newest, each.epoch, each.low, each.high, each.count) for each in found] == [
        ("n/t", NEWEST, 1, 0, 3, 2),
        ("n/u", "", 1, 1, 1, 1),
        ("n/t", NEWEST, 2, 4, 4, 1),
    ]
    assert [find(found[0], offset) for offset in range(5)] == [
        DepartedMessage(b"auth", 1.0, FIRST, True),
        None,
        None,
        DepartedMessage(b"auth", 1.0, "000001a206956dfa" + "ffff" + "0" * 20, True),
        None,
    ]
    alone = find(found[2], 4)
    assert alone is not None and (alone.position, alone.is_exact) == (NEWEST, False)


def test_of_a_batch_that_goes_again_what_is_stored_stands_where_the_hub_says() -> None:
    """A stored message is not sent again, so no later answer would name its position."""
    items = [item(0), item(1, "n/u"), item(2)]
    answer = message.Nack(parent_id=1, code="over_quota", reason="", stored=[0, 2], positions=[place(0)])
    [page] = departures(items, answer, now=9.0)
    found = find(page, 2)
    assert found is not None and (found.position, found.is_exact) == (nth(FIRST, 1), True)


def test_a_batch_of_one_topic_is_one_page_without_a_list() -> None:
    items = [item(number) for number in range(7, 40)]
    [page] = departures(items, message.Ack(parent_id=1, positions=[place(0)]), now=0.0)
    assert (page.low, page.high, page.among, page.count) == (7, 39, b"", 33)


def test_offsets_far_apart_are_pages_of_their_own_and_positions_go_on() -> None:
    ack = message.Ack(parent_id=1, positions=[place(0, newest="f" * 40)])
    found = departures([item(0), item(1), item(5 * SPAN_MAX), item(10**9)], ack, now=0.0)
    assert [(each.low, each.high, each.first) for each in found] == [
        (0, 1, nth(FIRST, 0)),
        (5 * SPAN_MAX, 5 * SPAN_MAX, nth(FIRST, 2)),
        (10**9, 10**9, nth(FIRST, 3)),
    ]


def test_what_a_mistaken_hub_says_is_not_believed() -> None:
    """An index outside the batch, and a first position from which the batch would go beyond the newest."""
    ack = message.Ack(parent_id=1, positions=[place(9), place(0, first=NEWEST)])
    [page] = departures([item(0), item(1)], ack, now=0.0)
    found = find(page, 1)
    assert found is not None and (found.position, found.is_exact) == (NEWEST, False)


def test_positions_that_would_begin_again_are_not_believed() -> None:
    """After the last possible position comes the first of all, which every table has read."""
    last = "f" * 20 + "0" * 20
    [page] = departures([item(0), item(1)], message.Ack(parent_id=1, positions=[place(0, last, last)]), now=0.0)
    found = find(page, 1)
    assert found is not None and (found.position, found.is_exact) == (last, False)


def test_a_hub_may_say_no_position() -> None:
    [page] = departures([item(0)], message.Ack(parent_id=1), now=0.0)
    found = find(page, 0)
    assert found is not None and found.position == "" and not is_upto(found.position, NEWEST)


@given(st.sets(st.integers(0, 3 * SPAN_MAX), min_size=1, max_size=50), st.integers(-1, 3 * SPAN_MAX + 1))
def test_pages_hold_their_offsets_and_no_others(offsets: set[int], other: int) -> None:
    ordered = sorted(offsets)
    found = [
        Departure(outcome="expired", left_at=0.0, epoch=1, low=page[0], high=page[-1], among=among(page))
        for page in pages(ordered)
    ]
    assert all(each.high - each.low < SPAN_MAX for each in found)
    assert [
        low + place
        for low, all_of_it in ((each.low, bits(each.low, each.high, each.among)) for each in found)
        for place in range(all_of_it.bit_length())
        if all_of_it >> place & 1
    ] == ordered
    assert sum(each.count for each in found) == len(ordered)
    for each in found:
        assert [index for offset in ordered if (index := index_of(each, offset)) is not None] == list(range(each.count))
    assert any(index_of(each, other) is not None for each in found) == (other in offsets)


@given(st.integers(0, 2**79 - 1), st.integers(0, 1000))
def test_positions_count_over_milliseconds(first: int, index: int) -> None:
    assert int(nth(f"{first:020x}" + "0" * 20, index)[:20], 16) == first + index
