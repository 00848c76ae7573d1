"""What a receipt says of a message that goes one way, several ways, or nowhere any more."""

from __future__ import annotations

import datetime
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.outbox.receipts import receipt
from fairlead_edge.outbox.receipts.departure import DepartedMessage, Departure, Outcome
from fairlead_edge.outbox.receipts.receipt import (
    DeadLettered,
    LeftQueue,
    ReadingTable,
    TopicReach,
    TwoClocks,
    Waiting,
    Way,
)
from fairlead_wire import message

NOW = TwoClocks(store=100.0, wall=datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC))
UP, MODULE = QueueId("iothub", 0), QueueId("edge-1/m/in", 0)
AT = "0" * 19 + "5" + "0" * 20
ID = "9f86d081884c7d659a2feaa0c55ad015"


def waiting(queue: QueueId = UP, *, expires: float | None = 160.0, in_flight: bool = False) -> Waiting:
    return Waiting(
        queue=queue, topic="n/t", enqueued=70.0, expires=expires, ahead=2, in_flight=in_flight, author=b"auth"
    )


def left(*, position: str = AT, topic: str = "n/t", generation: int = 1, outcome: Outcome = "in_topic") -> LeftQueue:
    page = Departure(
        outcome=outcome, left_at=80.0, topic=topic, service="s", generation=generation, newest=position,
        epoch=1, low=7, high=7,
    )  # fmt: skip
    return LeftQueue(queue=UP, departure=page, entry=DepartedMessage(b"auth", 70.0, position, True))


def topics(position: str = AT, generation: int = 1) -> dict[str, TopicReach]:
    tables = [
        ReadingTable(reader="a", name="/a", start="", position="0" * 40),
        ReadingTable(reader="b", name="/b", start="", position=position, batch=7, version=8),
    ]
    return {"n/t": TopicReach(topic="n/t", service="s", generation=generation, as_of=90.0, tables=tables)}


def describe(*ways: Way, known: dict[str, TopicReach] | None = None) -> dict[str, Any]:
    found = receipt.describe(ID, ways, known or {}, NOW, is_online=False)
    assert found is not None
    return found


def test_a_message_that_waits() -> None:
    found = describe(waiting())
    assert (found["state"], found["in_topic"], found["in_table"], found["as_of"]) == ("accepted", None, None, None)
    assert found["accepted"] == {"at": "2026-11-22T23:59:30.000Z", "age_seconds": 30.0}
    [way] = found["deliveries"]
    assert (way["ahead"], way["in_flight"], way["expires_in_seconds"]) == (2, False, 60.0)
    assert describe(waiting(expires=99.0))["state"] == "expired"
    assert describe(waiting(expires=99.0, in_flight=True))["state"] == "accepted", "it left before, and may arrive"


def test_a_message_in_its_topic_and_in_a_table() -> None:
    found = describe(left())
    assert (found["state"], found["in_topic"]["position"], found["deliveries"][0]["note"]) == (
        "in_topic", AT, receipt.NO_REPORT,
    )  # fmt: skip
    found = describe(left(), known=topics())
    assert (found["state"], found["in_table"]["reader"], found["in_table"]["batch"]) == ("in_table", "b", 7)
    assert found["as_of"] == found["in_table"]["as_of"] == "2026-11-22T23:59:50.000Z"
    assert [each["in_table"] for each in found["deliveries"][0]["tables"]] == [False, True]


def test_what_is_not_known_is_said() -> None:
    assert describe(left(position=""), known=topics())["deliveries"][0]["note"] == receipt.NO_POSITION
    anew = describe(left(), known=topics(generation=2))
    assert (anew["state"], anew["in_table"], anew["deliveries"][0]["note"]) == (
        "in_topic",
        None,
        receipt.TOPIC_RECREATED,
    )
    empty = {"n/t": TopicReach(topic="n/t", service="s", generation=1, as_of=1.0)}
    assert describe(left(), known=empty)["deliveries"][0]["note"] == receipt.NO_TABLE
    assert receipt.describe(ID, [], topics(), NOW, is_online=True) is None


def test_it_is_as_far_as_its_slowest_way_up() -> None:
    """A module on the node counts only if there is no topic."""
    found = describe(left(), left(topic="n/u"), known=topics())
    assert (found["state"], found["in_table"]) == ("in_topic", None)
    assert describe(waiting(MODULE), left(), known=topics())["state"] == "in_table"
    assert describe(waiting(MODULE))["state"] == "accepted"


def test_what_ended_here() -> None:
    assert describe(left(outcome="expired"))["state"] == "expired"
    assert describe(left(outcome="evicted"), left(topic="n/t"), known=topics())["state"] == "evicted"
    buried = DeadLettered(queue=UP, topic="n/t", number=3, at="t", code="bad_body", reason="why", author=b"auth")
    found = describe(buried)
    assert (found["state"], found["accepted"]["age_seconds"]) == ("dead_lettered", None)
    assert found["deliveries"][0]["dead_letter"] == {"number": 3, "at": "t", "code": "bad_body", "reason": "why"}


def test_an_author_sees_its_own() -> None:
    assert receipt.may_see([waiting(), left()], b"auth") != [] == receipt.may_see([waiting(), left()], b"othr")


# ---- how far tables are, as the hub said last, and what follows for a message ----------------------------------------


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
    """Nor a message with only an upper bound of its position, which may be before the start."""
    [table] = receipt.updated(None, said(9, start=5), 1.0).tables
    assert [receipt.has_taken(entry(number), table) for number in (5, 6, 9)] == [False, True, True]
    assert not receipt.has_taken(entry(6, is_exact=False), table)
    [whole] = receipt.updated(None, said(9), 1.0).tables
    assert receipt.has_taken(entry(6, is_exact=False), whole)


def test_a_row_is_certain_while_nothing_was_set_aside() -> None:
    """From the first report on, while the count of messages without a row does not change."""
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
    """The latest report counts, and rows are certain only from there on."""
    first = receipt.updated(None, said(9), 1.0)
    second = receipt.updated(first, said(3), 2.0)
    assert [table.reader for table in receipt.went_back(first, second)] == ["r"]
    assert not receipt.has_taken(entry(8), second.tables[0])
    third = receipt.updated(second, said(9), 3.0)
    assert not list(receipt.went_back(second, third))
    assert not receipt.has_row(entry(2), third.tables[0]) and receipt.has_row(entry(8), third.tables[0])


def test_a_topic_made_anew_is_another_one() -> None:
    topic = receipt.updated(receipt.updated(None, said(9), 1.0), said(3, generation=2), 2.0)
    old = Departure(outcome="in_topic", left_at=0.0, topic="n/t", service="s", generation=1, epoch=1, low=7, high=7)
    assert not receipt.is_of(old, topic)
    assert not list(receipt.went_back(receipt.updated(None, said(9), 1.0), topic))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3), st.booleans()), min_size=1, max_size=12))
def test_no_row_is_claimed_that_there_is_not(words: list[tuple[int, int, bool]]) -> None:
    """The model is a job that sets aside the last message of some ranges."""
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
