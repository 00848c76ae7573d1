"""What came back, before it is read."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.responses import Topic
from fairlead_messaging.client.request import Response
from fairlead_wire.errors import RemoteError


def test_a_header_is_found_without_regard_to_case() -> None:
    """As HTTP has it."""
    response = Response(status=200, headers={"fairlead-service": "s"}, body=b"")
    assert (response.header("Fairlead-Service"), response.header("Retry-After")) == ("s", None)


def test_a_body_of_another_shape_is_not_this_service() -> None:
    """Whatever it is."""
    good = Response(status=200, headers={}, body=b'{"name":"t","properties":{},"new":1}')
    assert good.json(Topic).name == "t"
    for body in (b"", b"{", b"[]", b"\xff", b"[" * 10_000):
        with pytest.raises(RemoteError):
            Response(status=200, headers={}, body=body).json(Topic)
