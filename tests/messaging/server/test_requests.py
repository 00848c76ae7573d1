"""JSON bodies: what is accepted, and that refusals name the place."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import Refused, TooLarge
from fairlead_messaging.api.message_id import FIRST, Position
from fairlead_messaging.api.requests import PollRequest, PublishRequest
from fairlead_messaging.server import requests
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


def test_timeouts_and_change_sets_are_bounded() -> None:
    """Before the writer sees them."""
    assert (requests.timeout(None, 600), requests.timeout(600, 600), requests.changes(["x"])) == (None, 600, ["x"])
    for seconds in (0, -1, 601, float("nan")):
        with pytest.raises(Refused):
            requests.timeout(seconds, 600)
    with pytest.raises(Refused):
        requests.changes(["x" * 2000])
    with pytest.raises(Refused):
        requests.changes(["x"] * 20_000)
