"""Messages on their way out: room, batches, numbers, counts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fairlead_messaging.api.responses import Message, Page
from fairlead_messaging.client import errors, publish_buffer
from fairlead_messaging.client.cursor import Cursor
from fairlead_messaging.client.publish_buffer import PublishBuffer
from fairlead_wire.errors import RemoteError


def made(**limits: int) -> PublishBuffer:
    return PublishBuffer("n", "t", producer_id="p", epoch=7, **limits)


def sent(gathered: PublishBuffer) -> tuple[list[bytes], int]:
    """Payloads of the batch, and the number of its first."""
    call = gathered.batch()
    assert call is not None
    assert call.body is not None
    asked = json.loads(call.body)
    assert (asked["producer"]["id"], asked["producer"]["epoch"]) == ("p", 7)
    return [base64.b64decode(each) for each in asked["messages"]], asked["producer"]["sequence"]


def test_a_batch_stays_the_same_until_it_is_settled() -> None:
    """So a repeat after a lost answer has the same numbers, whatever came meanwhile."""
    gathered = made()
    gathered.offer(b"a")
    assert sent(gathered) == ([b"a"], 0)
    gathered.offer(b"b")
    assert sent(gathered) == ([b"a"], 0)
    gathered.stored()
    assert sent(gathered) == ([b"b"], 1)
    gathered.stored()
    assert gathered.batch() is None
    assert (gathered.published, gathered.dropped, gathered.settled) == (2, 0, 2)


def test_what_finds_no_room_is_dropped_and_counted() -> None:
    gathered = made(waiting_messages_max=2, waiting_bytes_max=4)
    assert [gathered.offer(b"aa"), gathered.offer(b"bbb"), gathered.offer(b"b"), gathered.offer(b"")] == [
        True, False, True, False,
    ]  # fmt: skip
    assert (gathered.accepted, gathered.dropped, gathered.waiting) == (2, 2, 2)
    gathered.batch()
    gathered.stored()
    assert gathered.offer(b"bbbb")


def test_a_batch_fits_into_one_request() -> None:
    many = made()
    for _ in range(publish_buffer.BATCH_MESSAGES_MAX + 1):
        many.offer(b"")
    assert len(sent(many)[0]) == publish_buffer.BATCH_MESSAGES_MAX
    large = made()
    for size in (publish_buffer.BATCH_BYTES_MAX + 1, publish_buffer.BATCH_BYTES_MAX, 1):
        large.offer(bytes(size))
    sizes = []
    while large.batch() is not None:
        sizes.append([len(payload) for payload in sent(large)[0]])
        large.stored()
    assert sizes == [[publish_buffer.BATCH_BYTES_MAX + 1], [publish_buffer.BATCH_BYTES_MAX], [1]]


def test_a_refused_batch_goes_alone() -> None:
    gathered = made()
    gathered.offer(b"a")
    gathered.batch()
    gathered.offer(b"b")
    assert gathered.refused() == 1
    assert sent(gathered) == ([b"b"], 1)
    assert gathered.give_up() == 1
    assert (gathered.published, gathered.dropped, gathered.settled, gathered.accepted) == (0, 2, 2, 2)


def test_waits_grow_until_something_gets_through() -> None:
    gathered = made()
    gathered.offer(b"a")
    gathered.batch()
    lost = errors.TimedOut("x", seconds=30)
    assert [gathered.failed(lost) for _ in range(5)] == [1, 2, 4, 8, 10]
    assert gathered.failed(errors.Busy("x", code="overloaded", status=503, retry_after_seconds=60)) == 60
    gathered.stored()
    assert gathered.failed(lost) == 1


# --- Where an iteration stands.


def asked(cursor: Cursor) -> dict[str, Any]:
    body = cursor.ask().body
    assert body is not None
    question: dict[str, Any] = json.loads(body)
    return question


def page(*ids: str, then: str) -> Page:
    return Page(messages=tuple(Message(id=each, payload=b"") for each in ids), next_position=then)


def test_each_page_goes_on_behind_the_last() -> None:
    cursor = Cursor("n", "t", start_from="0a")
    assert asked(cursor) == {"startFrom": "0a", "isolation": "read_committed", "wait_ms": 0}
    assert [message.id for message in cursor.take(page("0a", "0b", then="0b"))] == ["0a", "0b"]
    assert (asked(cursor)["startFrom"], asked(cursor)["inclusive"]) == ("0b", False)


def test_the_end_is_where_nothing_moves_any_more() -> None:
    cursor = Cursor("n", "t")
    cursor.take(page(then="0c"))
    assert cursor.more
    cursor.take(page(then="0c"))
    assert not cursor.more


def test_a_page_that_leads_back_is_refused() -> None:
    cursor = Cursor("n", "t", start_from="0a", limit=1)
    cursor.take(page("0a", then="0a"))
    assert (cursor.position, asked(cursor)["limit"]) == ("0a", 1)
    for back in ("0a", "09"):
        with pytest.raises(RemoteError):
            cursor.take(page("0a", then=back))


def test_the_beginning_and_a_time_may_be_exclusive_too() -> None:
    for start in (None, 1_700_000_000_000):
        cursor = Cursor("n", "t", start_from=start, inclusive=False)
        assert len(cursor.take(page("0a", then="0a"))) == 1


def test_following_never_ends_and_lets_the_service_wait() -> None:
    cursor = Cursor("n", "t", follow=True)
    cursor.take(page(then="0c"))
    cursor.take(page(then="0c"))
    assert cursor.more
    assert asked(cursor)["wait_ms"] > 0
