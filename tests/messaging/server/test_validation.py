"""Limits, times and ids of requests."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import Refused, TooLarge
from fairlead_messaging.api.message_id import FIRST, Position
from fairlead_messaging.api.requests import PollRequest, PublishRequest
from fairlead_messaging.server import json_bodies, validation
from fairlead_messaging.server.log.rows import columns


def test_messages_are_texts_or_objects() -> None:
    """Base64 text, or an object with its own ttl as number or text."""
    body = json_bodies.decode(
        b'{"messages": ["YQ==", {"payload": "Yg=="}, {"payload": "Yw==", "ttl": "5"}]}', PublishRequest
    )
    assert columns(validation.messages(body)) == ([b"a", b"b", b"c"], [0, 0, 5])


def test_messages_are_bounded_by_bytes_alone() -> None:
    """Each counts for what it takes in memory; the refusal says the remedy."""
    assert validation.check_size(1_000_000, 256 * 2**20) == 256_000_000
    with pytest.raises(TooLarge, match="several requests"):
        validation.check_size(1_100_000, 256 * 2**20)  # more would hold up all other publishers for long


def test_starts() -> None:
    """Nothing, ids and times become one exclusive id."""
    message_id = Position(5, 1).encode() + bytes(10)
    assert validation.start(PollRequest()) == FIRST
    assert validation.start(PollRequest(inclusive=False)) == FIRST
    assert validation.start(PollRequest(startFrom=message_id.hex(), inclusive=False)) == message_id
    assert validation.start(PollRequest(startFrom=message_id.hex())) < message_id
    assert validation.start(PollRequest(startFrom=5)) < Position(5, 0).encode()
    assert validation.start(PollRequest(startFrom=5, inclusive=False)) > Position(5, 65535).encode()
    assert validation.start(PollRequest(startFrom=2**63 - 1, inclusive=False)) > FIRST


def test_timeouts_and_change_sets_are_bounded() -> None:
    """Before the writer sees them."""
    assert (validation.timeout(None, 600), validation.timeout(600, 600), validation.changes(["x"])) == (
        None,
        600,
        ["x"],
    )
    for seconds in (0, -1, 601, float("nan")):
        with pytest.raises(Refused):
            validation.timeout(seconds, 600)
    with pytest.raises(Refused):
        validation.changes(["x" * 2000])
    with pytest.raises(Refused):
        validation.changes(["x"] * 20_000)
