"""Limits, times and ids of requests."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import BodyTooLarge, Refused
from fairlead_messaging.api.requests import PollRequest, PublishRequest
from fairlead_messaging.server import json_bodies, validation
from fairlead_messaging.server.log.rows import columns


def test_messages_are_texts_or_objects() -> None:
    body = json_bodies.decode(
        b'{"messages": ["YQ==", {"payload": "Yg=="}, {"payload": "Yw==", "ttl": "5"}]}', PublishRequest
    )
    assert columns(validation.messages(body)) == ([b"a", b"b", b"c"], [0, 0, 5])


def test_messages_are_bounded_by_bytes_alone() -> None:
    assert validation.check_size(1_000_000, 256 * 2**20) == 256_000_000
    with pytest.raises(BodyTooLarge, match="several requests"):
        validation.check_size(1_100_000, 256 * 2**20)  # more would hold up all other publishers for long


def test_timeouts_and_change_sets_are_bounded() -> None:
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


# --- JSON bodies: what is accepted, and that refusals name the place.


def test_refusals_name_the_place() -> None:
    with pytest.raises(Refused, match=r"messages\[1\]"):
        json_bodies.decode(b'{"messages": ["YQ==", 5]}', PublishRequest)


def test_decoded_or_encoded_it_is_the_same() -> None:
    asked = PollRequest(startFrom=5, limit=7)
    assert json_bodies.decode(json_bodies.encode(asked), PollRequest) == asked
    assert json_bodies.decode_properties(b" ") is None
    with pytest.raises(BodyTooLarge):
        json_bodies.publish_body(b'{"messages": [%s]}' % b",".join([b'""'] * 400), 1000)
