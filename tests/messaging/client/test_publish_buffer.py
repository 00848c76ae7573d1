"""Messages on their way out: room, batches, numbers, counts."""

from __future__ import annotations

import base64
import json

from fairlead_messaging.client import errors, publish_buffer
from fairlead_messaging.client.publish_buffer import PublishBuffer


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
    gathered.taken()
    assert sent(gathered) == ([b"b"], 1)
    gathered.taken()
    assert gathered.batch() is None
    assert (gathered.published, gathered.dropped, gathered.settled) == (2, 0, 2)


def test_what_finds_no_room_is_dropped_and_counted() -> None:
    """By number and by bytes; room comes back as messages go out."""
    gathered = made(waiting_messages_max=2, waiting_bytes_max=4)
    assert [gathered.offer(b"aa"), gathered.offer(b"bbb"), gathered.offer(b"b"), gathered.offer(b"")] == [
        True, False, True, False,
    ]  # fmt: skip
    assert (gathered.accepted, gathered.dropped, gathered.waiting) == (2, 2, 2)
    gathered.batch()
    gathered.taken()
    assert gathered.offer(b"bbbb")


def test_a_batch_fits_into_one_request() -> None:
    """By number and by bytes; one that alone is over the bound goes alone."""
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
        large.taken()
    assert sizes == [[publish_buffer.BATCH_BYTES_MAX + 1], [publish_buffer.BATCH_BYTES_MAX], [1]]


def test_a_refused_batch_goes_alone() -> None:
    """What came meanwhile is still sent."""
    gathered = made()
    gathered.offer(b"a")
    gathered.batch()
    gathered.offer(b"b")
    assert gathered.refused() == 1
    assert sent(gathered) == ([b"b"], 1)
    assert gathered.give_up() == 1
    assert (gathered.published, gathered.dropped, gathered.settled, gathered.accepted) == (0, 2, 2, 2)


def test_waits_grow_until_something_gets_through() -> None:
    """The service's own pause counts when it is longer."""
    gathered = made()
    gathered.offer(b"a")
    gathered.batch()
    lost = errors.TimedOut("x", seconds=30)
    assert [gathered.failed(lost) for _ in range(5)] == [1, 2, 4, 8, 10]
    assert gathered.failed(errors.Busy("x", code="overloaded", status=503, retry_after_seconds=60)) == 60
    gathered.taken()
    assert gathered.failed(lost) == 1
