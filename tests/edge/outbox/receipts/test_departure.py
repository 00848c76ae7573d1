"""Pages of what left: who is in them, and where each stands."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.receipts import mark
from fairlead_edge.outbox.receipts.departure import Departure, departures, entry, find, ids, is_upto, nth
from fairlead_wire import message

FIRST = "000001a206956dfa" + "fffe" + "0" * 20
NEWEST = "000001a206956dfb" + "0005" + "0" * 20


def item(number: int, topic: str = "n/t", epoch: int = 1) -> Item:
    content = b'{"id":"%032x"}' % (number + 1)
    return Item(number, epoch, topic, float(number), None, content)


def place(index: int, first: str = FIRST, newest: str = NEWEST, generation: int = 2) -> message.TopicPosition:
    return message.TopicPosition(index=index, service="s", generation=generation, first=first, newest=newest)


def id_of(number: int) -> bytes:
    return (number + 1).to_bytes(16, "big")


def test_each_message_of_a_batch_stands_where_it_was_stored() -> None:
    """Consecutive positions by topic and epoch; what was refused takes none."""
    items = [item(0), item(1, "n/u"), item(2), item(3), item(4, epoch=2)]
    ack = message.Ack(
        parent_id=1, refused=[message.Refused(index=2, code="x", reason="")], positions=[place(0), place(4, first="")]
    )
    pages = departures(items, ack, now=9.0)
    assert [(each.topic, each.newest, len(ids(each))) for each in pages] == [
        ("n/t", NEWEST, 2),
        ("n/u", "", 1),
        ("n/t", NEWEST, 1),
    ]
    found = [find(pages[0], id_of(number)) for number in (0, 3)]
    assert [each and (each.position, each.is_exact, each.enqueued) for each in found] == [
        (FIRST, True, 0.0),
        ("000001a206956dfa" + "ffff" + "0" * 20, True, 3.0),
    ]
    assert find(pages[0], id_of(2)) is None
    alone = find(pages[2], id_of(4))
    assert alone is not None and (alone.position, alone.is_exact) == (NEWEST, False)


def test_what_a_mistaken_hub_says_is_not_believed() -> None:
    """A place outside of the batch, and a first position from which the batch would go beyond the newest."""
    ack = message.Ack(parent_id=1, positions=[place(9), place(0, first=NEWEST)])
    [page] = departures([item(0), item(1)], ack, now=0.0)
    found = find(page, id_of(1))
    assert found is not None and (found.position, found.is_exact) == (NEWEST, False)


def test_positions_that_would_begin_again_are_not_believed() -> None:
    """From the last position there is, the next would be the first of all, which every table has."""
    last = "f" * 20 + "0" * 20
    [page] = departures([item(0), item(1)], message.Ack(parent_id=1, positions=[place(0, last, last)]), now=0.0)
    found = find(page, id_of(1))
    assert found is not None and (found.position, found.is_exact) == (last, False)


def test_an_older_hub_says_no_position() -> None:
    [page] = departures([item(0)], message.Ack(parent_id=1), now=0.0)
    found = find(page, id_of(0))
    assert found is not None and found.position == "" and not is_upto(found.position, NEWEST)


def test_authors_are_kept_where_modules_have_tokens() -> None:
    [page] = departures([item(0)], message.Ack(parent_id=1), now=0.0, author_in=lambda content: b"auth")
    found = find(page, id_of(0))
    assert found is not None and found.author == b"auth"


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=20, unique=True), st.binary(min_size=16, max_size=16))
def test_only_whole_entries_are_found(named: list[bytes], other: bytes) -> None:
    """Whatever bytes ids are made of."""
    page = Departure(
        outcome="in_topic",
        left_at=0.0,
        entries=b"".join(entry(each + mark.NO_AUTHOR, float(number)) for number, each in enumerate(named)),
    )
    assert [(found := find(page, each)) and found.enqueued for each in named] == list(map(float, range(len(named))))
    assert (find(page, other) is not None) == (other in named)


@given(st.integers(0, 2**79 - 1), st.integers(0, 1000))
def test_positions_count_over_milliseconds(first: int, index: int) -> None:
    assert int(nth(f"{first:020x}" + "0" * 20, index)[:20], 16) == first + index
