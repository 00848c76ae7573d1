"""JSON bodies: what is accepted, and that refusals name the place."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import Refused, TooLarge
from fairlead_messaging.api.message_id import FIRST, Position
from fairlead_messaging.api.requests import WAIT_MS_MAX, PollRequest, PublishRequest, RollbackDetail
from fairlead_messaging.server import requests
from fairlead_messaging.server.commands import Published
from fairlead_messaging.server.log.message import columns


def test_messages_are_texts_or_objects() -> None:
    """Base64 text, or an object with its own ttl as number or text."""
    body = requests.decode(
        b'{"messages": ["YQ==", {"payload": "Yg=="}, {"payload": "Yw==", "ttl": "5"}]}', PublishRequest
    )
    assert columns(requests.messages(body)) == ([b"a", b"b", b"c"], [0, 0, 5])


def test_refusals_name_the_place() -> None:
    """A person can find the mistake."""
    with pytest.raises(Refused, match=r"messages\[1\]"):
        requests.decode(b'{"messages": ["YQ==", 5]}', PublishRequest)


def test_messages_are_bounded_by_bytes_alone() -> None:
    """Each counts for what it takes in memory; the refusal says the remedy."""
    assert requests.check_size(1_000_000, 256 * 2**20) == 256_000_000
    with pytest.raises(TooLarge, match="several requests"):
        requests.check_size(1_100_000, 256 * 2**20)  # more would hold up all other publishers for long


def test_starts() -> None:
    """Nothing, ids and times become one exclusive id."""
    message_id = Position(5, 1).encode() + bytes(10)
    assert requests.start(PollRequest()) == FIRST
    assert requests.start(PollRequest(inclusive=False)) == FIRST
    assert requests.start(PollRequest(startFrom=message_id.hex(), inclusive=False)) == message_id
    assert requests.start(PollRequest(startFrom=message_id.hex())) < message_id
    assert requests.start(PollRequest(startFrom=5)) < Position(5, 0).encode()
    assert requests.start(PollRequest(startFrom=5, inclusive=False)) > Position(5, 65535).encode()
    assert requests.start(PollRequest(startFrom=2**63 - 1, inclusive=False)) > FIRST


def test_limits_are_cut_to_the_services_own() -> None:
    """None means the maximum; what is not positive is refused."""
    assert [requests.limit(asked, 100) for asked in (None, 1, 100, 1000)] == [100, 1, 100, 100]
    assert [requests.wait_ms(asked) for asked in (0, 10, 10**9)] == [0, 10, WAIT_MS_MAX]
    for asked in (0, -1, 2**31):
        with pytest.raises(Refused):
            requests.limit(asked, 100)
    with pytest.raises(Refused):
        requests.splits(0)


def test_the_rollback_detail_is_flat_and_goes_back() -> None:
    """What is answered is what is accepted."""
    detail = requests.rollback_of(9, Published(first=Position(1, 2), last=Position(3, 4)))
    again = requests.decode(requests.encode(detail), RollbackDetail)
    assert requests.rollback_range(again) == (Position(1, 2), Position(3, 4))
    assert again.transactionWritePointer == 9
