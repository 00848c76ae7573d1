"""Events are values: a session that has ended answers every one of them with nothing."""

from __future__ import annotations

import pytest

from fairlead_edge.objects.metastore import StoreSummary
from fairlead_edge.objects.sync import events
from fairlead_edge.objects.sync.effects import Close
from fairlead_edge.objects.sync.session import EdgeSession
from fairlead_wire import message
from fairlead_wire.objects import digest

EVENTS = [
    events.Connected(),
    events.FrameReceived(b"\x01"),
    events.Applied([]),
    events.FencePersisted(),
    events.Summarised(StoreSummary(held=0, buckets=digest.Buckets(0))),
    events.EntriesListed([]),
    events.Ticked(),
    events.StatusReported(message.EdgeStatus(held=1)),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_after_the_end_every_event_is_answered_with_nothing(event: events.Event) -> None:
    """The store may finish its work after the connection was closed."""
    core = EdgeSession(node="edge-1", agent="1", store_epoch=1, fence=0, now=0.0)
    [end] = core.handle(events.FrameReceived(b"no frame"), 0.0)
    assert isinstance(end, Close) and end.code == "protocol"
    assert core.handle(event, 1.0) == []


def test_every_event_is_among_these() -> None:
    """A new one is tried here, too."""
    assert {type(event) for event in EVENTS} == set(events.Event.__args__)
