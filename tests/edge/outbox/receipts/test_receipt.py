"""What a receipt says of a message that goes one way, several ways, or nowhere any more."""

from __future__ import annotations

import datetime
from typing import Any

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
    """Each table is named; the first that has it is the answer."""
    found = describe(left())
    assert (found["state"], found["in_topic"]["position"], found["deliveries"][0]["note"]) == (
        "in_topic", AT, receipt.NOT_TOLD,
    )  # fmt: skip
    found = describe(left(), known=topics())
    assert (found["state"], found["in_table"]["reader"], found["in_table"]["batch"]) == ("in_table", "b", 7)
    assert found["as_of"] == found["in_table"]["as_of"] == "2026-11-22T23:59:50.000Z"
    assert [each["in_table"] for each in found["deliveries"][0]["tables"]] == [False, True]


def test_what_is_not_known_is_said() -> None:
    assert describe(left(position=""), known=topics())["deliveries"][0]["note"] == receipt.NO_POSITION
    anew = describe(left(), known=topics(generation=2))
    assert (anew["state"], anew["in_table"], anew["deliveries"][0]["note"]) == ("in_topic", None, receipt.MADE_ANEW)
    empty = {"n/t": TopicReach(topic="n/t", service="s", generation=1, as_of=1.0)}
    assert describe(left(), known=empty)["deliveries"][0]["note"] == receipt.NO_TABLE
    assert receipt.describe(ID, [], topics(), NOW, is_online=True) is None


def test_it_is_as_far_as_its_slowest_way_up() -> None:
    """A way to a module of the node counts where there is no other."""
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
