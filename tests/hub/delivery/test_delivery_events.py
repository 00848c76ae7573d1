"""What became of deliveries: facts, in the order in which they became true."""

from __future__ import annotations

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.delivery import delivery_events


def test_a_refused_object_that_changes_tells_its_whole_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parked, tried again because it is newer, acknowledged; the hub takes each fact once."""
    core = Core("edge-1").rule(CONFIG_MAPS)
    core.put("a", data={"v": "1"})
    edge = core.connect()
    session, said = edge.session, []
    delivered = core.hub.sync_controller.delivered

    def listening(which, events, now):
        said.extend(events)
        return delivered(which, events, now)

    monkeypatch.setattr(core.hub.sync_controller, "delivered", listening)
    edge.nack(edge.sent()[0])
    core.put("a", version="2", data={"v": "2"})
    edge.ack(*edge.sent())
    story = [
        one
        for one in said
        if isinstance(one, delivery_events.Parked | delivery_events.Unparked | delivery_events.AckedByEdge)
    ]
    assert [type(one).__name__ for one in story] == ["Parked", "Unparked", "AckedByEdge"], story
    unparked = story[1]
    assert isinstance(unparked, delivery_events.Unparked) and unparked.why == "newer" and not session.keys.events
