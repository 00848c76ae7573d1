"""What clients ask, as the server reads it."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_messaging.api.requests import PollRequest, Producer, PublishRequest


def test_a_misspelt_field_is_refused() -> None:
    """It would otherwise be passed over."""
    with pytest.raises(msgspec.ValidationError, match="waitMs"):
        msgspec.json.decode(b'{"waitMs": 1}', type=PollRequest)


def test_what_is_not_said_is_not_sent() -> None:
    """So that an older service is not asked what it does not know."""
    assert msgspec.json.encode(PollRequest(limit=5)) == b'{"limit":5}'
    asked = PublishRequest(messages=[b"a"], producer=Producer(id="p", epoch=1, sequences=[3]))
    assert msgspec.json.encode(asked) == b'{"messages":["YQ=="],"producer":{"id":"p","epoch":1,"sequences":[3]}}'


def test_limits_are_described_and_not_enforced_by_the_shape() -> None:
    """The server has an error code of its own for each."""
    assert msgspec.json.decode(b'{"limit": 0, "wait_ms": -1}', type=PollRequest).limit == 0
    shape = msgspec.json.schema(PollRequest)["$defs"]["PollRequest"]["properties"]
    assert shape["limit"]["minimum"] == 1
