"""JSON bodies: what is accepted, and that refusals name the place."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import Refused, TooLarge
from fairlead_messaging.api.requests import PollRequest, PublishRequest
from fairlead_messaging.server import json_bodies


def test_refusals_name_the_place() -> None:
    """A person can find the mistake."""
    with pytest.raises(Refused, match=r"messages\[1\]"):
        json_bodies.decode(b'{"messages": ["YQ==", 5]}', PublishRequest)


def test_decoded_or_encoded_it_is_the_same() -> None:
    """A body that a client writes is the request it was made from."""
    asked = PollRequest(startFrom=5, limit=7)
    assert json_bodies.decode(json_bodies.encode(asked), PollRequest) == asked
    assert json_bodies.decode_properties(b" ") is None
    with pytest.raises(TooLarge):
        json_bodies.publish_body(b'{"messages": [%s]}' % b",".join([b'""'] * 400), 1000)
