"""The status as it goes to the hub."""

from __future__ import annotations

import msgspec

from fairlead_edge.objects.sync import status_frame
from fairlead_wire.message import EdgeStatus, RoutesStatus


def status(routes: int) -> EdgeStatus:
    """So many route objects that are all bad."""
    bad = RoutesStatus(uid="u" * 1000, resource_version="1", accepted=[], errors=[])
    return EdgeStatus(held=3, queues=[], routes={f"default/r{number}": bad for number in range(routes)})


def test_a_status_is_sent_whole() -> None:
    """As long as it is short enough."""
    assert msgspec.json.decode(status_frame.encode(status(2)), type=EdgeStatus) == status(2)


def test_a_status_that_is_too_long_goes_without_its_routes() -> None:
    """Otherwise the hub would end the session for the size of a frame."""
    content = status_frame.encode(status(3000))
    assert len(content) < status_frame.BYTES_MAX
    assert msgspec.json.decode(content, type=EdgeStatus) == status(0)
