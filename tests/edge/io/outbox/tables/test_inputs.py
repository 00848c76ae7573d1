"""Which messages from the cloud were put into queues, and what became of them."""

from __future__ import annotations

import apsw
import pytest
from tests.support.edges.outbox_tables import settle, tables

from fairlead_edge.errors import StoreFull
from fairlead_edge.io.outbox.tables import inputs
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Reference, Refusal
from fairlead_edge.outbox.queues import QueueId
from fairlead_wire.errors import Temporary

QUEUE = QueueId("edge-1/camera/commands")
CONTENT = b'{"id":"a"}'


def take(
    connection: apsw.Connection, id: str, *, now: float = 0.0, ttl: float = 10.0, max_bytes: int = 1 << 20
) -> bool:
    entry = Entry(id, CONTENT, (Reference(QUEUE, ttl),))
    return inputs.take_input(connection, entry, epoch=1, now=now, max_bytes=max_bytes)


def state(connection: apsw.Connection, id: str, now: float = 0.0) -> str:
    return next((each.state for each in inputs.input_states(connection, [id], now=now)), "")


def test_a_message_is_put_into_its_queue_once() -> None:
    """Even after its module had it, for as long as the hub might send it again."""
    connection = tables()
    assert take(connection, "a") and not take(connection, "a")
    settle(connection, QUEUE, 0)
    assert state(connection, "a") == "consumed"
    assert not take(connection, "a", now=5.0)
    assert rows(connection, "SELECT accepted FROM queues") == [(1,)]
    assert take(connection, "b", now=10.0 + inputs.KEPT_SECONDS + 1), "the first is forgotten now"
    assert state(connection, "a") == ""


def test_states_follow_the_queue() -> None:
    connection = tables()
    for id in ("waits", "dead", "leased"):
        take(connection, id)
    settle(connection, QUEUE, refused=(Refusal(1, "abandoned", "too often"),))
    rows(connection, "INSERT INTO attempts VALUES(1, 2, x'00', 1, 1, 99.0, 0, 0, 0)")
    assert [state(connection, id) for id in ("waits", "dead", "leased")] == ["delivered", "dead_lettered", "delivered"]
    later = [state(connection, id, 11.0) for id in ("waits", "dead", "leased")]
    assert later == ["expired", "dead_lettered", "delivered"]
    settle(connection, QUEUE, 2)
    assert state(connection, "leased", 12.0) == "consumed"


def test_one_that_made_room_says_so() -> None:
    connection = tables()
    take(connection, "a")
    rows(connection, "DELETE FROM references_")
    assert state(connection, "a", 1.0) == "evicted" and state(connection, "a", 11.0) == "expired"


def test_a_full_store_takes_nothing_and_remembers_nothing() -> None:
    """Otherwise the message would count as known when it is sent again."""
    connection = tables()
    connection.execute("BEGIN")
    with pytest.raises(StoreFull):
        take(connection, "a", max_bytes=1)
    connection.execute("ROLLBACK")
    assert take(connection, "a")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further ones are deferred: forgetting one early would store it twice."""
    monkeypatch.setattr(inputs, "KEPT_MAX", 2)
    connection = tables()
    take(connection, "a")
    take(connection, "b")
    with pytest.raises(Temporary):
        take(connection, "c")
    assert take(connection, "c", now=10.0 + inputs.KEPT_SECONDS + 1)


def test_a_row_the_disk_changed_says_nothing() -> None:
    """A damaged row reports no state, and the message is not stored again."""
    connection = tables()
    take(connection, "a")
    rows(connection, "UPDATE inputs SET state = 'consumed'")
    assert state(connection, "a") == "" and not take(connection, "a")
    settle(connection, QUEUE, 0)


def test_other_messages_of_the_queue_are_none_of_these() -> None:
    connection = tables()
    inputs.note_input_states(connection, 1, [0], inputs.CONSUMED)
    take(connection, "a")
    inputs.note_input_states(connection, 1, [7], inputs.CONSUMED)
    assert state(connection, "a") == "delivered"
