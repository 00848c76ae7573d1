"""What happened lately."""

from fairlead_hub.console import events
from fairlead_hub.console.events import EventLog
from fairlead_wire.event import Event


def event(type="node.connected", **data):
    return Event(type=type, time="2027-01-15T08:00:00Z", node="edge-1", subject="edge-1", data=data)


def test_newest_first_and_each_is_new_once():
    """The first page shows all, open ones get what came since."""
    log = EventLog()
    log.add([event(agentVersion="1.0", objectsHeld=0), event("object.parked", reason="store_full", message="no room")])
    assert [line.type for line in log.newest()] == ["object.parked", "node.connected"]
    assert [line.text for line in log.take_new()] == ["store_full, no room", "agent 1.0, objects held: 0"]
    assert log.take_new() == [] and log.newest(1)[0].is_problem and log.newest()[1].at == 1_800_000_000


def test_the_oldest_go():
    """However many there are."""
    log = EventLog()
    log.add(event() for _ in range(events.KEPT + 5))
    assert len(log.newest()) == len(log.take_new()) == events.KEPT
    assert log.newest()[-1].number == 6


def test_a_priority_is_named_once():
    """It is the reason of a stalled queue."""
    log = EventLog()
    log.add([event("queue.stalled", reason="9", priority=9, message="quota", count=1)])
    assert log.newest()[0].text == "priority 9, quota"
