"""One line each: a node, a topic by two looks at it, what happened lately."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, NOON, Core

from fairlead_hub.console.lines import EVENTS_KEPT, EventLog, TopicSample, node_line, topic_lines
from fairlead_hub.settings import DeletionGuardSettings
from fairlead_wire.event import Event


@pytest.fixture
def core():
    return Core("edge-1").rule(CONFIG_MAPS)


def line(core):
    return node_line(core.hub.view, "edge-1", core.hub.view.session("edge-1"))


def test_a_node_that_never_came(core):
    """It has no moment."""
    assert line(core)[:6] == ("edge-1", "never", 0, 0, 0, 0)


def test_behind_and_then_in_sync(core):
    """The moment is when its oldest object began to wait, not an age."""
    core.now = 5.0
    core.put("a")
    edge = core.connect()
    [sent] = edge.sent()
    found = line(core)
    assert (found.state, found.since, found.pending, found.agent) == ("behind", int(NOON) + 5, 1, "1.0")
    core.now = 65.0
    assert line(core) == found, "nothing happened"
    edge.ack(sent)
    assert (line(core).state, line(core).since, line(core).held) == ("sync", 0, 1)


def test_parked(core):
    """Counted, and before catching up."""
    core.put("a")
    edge = core.connect()
    edge.nack(edge.sent()[0])
    assert (line(core).state, line(core).parked) == ("parked", 1)


def test_paused_with_its_reason(core):
    """As the annotation says."""
    core.connect().sent()
    core.annotate("edge-1", paused="until Friday")
    assert line(core).state == "paused" and "until Friday" in line(core).note


async def test_away_since_it_was_last_heard_of(core):
    """From its document, as a hub that starts finds it."""
    core.put("a")
    edge = core.served()
    core.hub.report(core.now)
    core.now = 90.0
    await core.report()
    edge.leave()
    found = line(core)
    assert (found.state, found.held, found.agent) == ("away", 1, "1.0") and found.since >= int(NOON)


def test_stopped_deletions_name_the_remedy():
    """They wait for a person."""
    core = Core("edge-1", deletion_guard=DeletionGuardSettings(removals_max=1)).rule(CONFIG_MAPS)
    objects = [core.put(name) for name in "abc"]
    edge = core.served()
    for each in objects:
        core.remove(each)
    edge.sent()
    assert line(core).state == "stopped" and "kubectl annotate" in line(core).note


def rates(*looks):
    before: dict[str, TopicSample] = {}
    shown: dict[str, float | None] = {}
    for look in looks:
        lines = topic_lines(before, shown, [look])
        before, shown = {look.topic: look}, {line.topic: line.rate for line in lines}
    return shown["a/b"]


def test_one_look_does_not_tell_and_two_do():
    """Messages by seconds."""
    assert rates(TopicSample("a/b", 1, 100, 10.0, ())) is None
    assert rates(TopicSample("a/b", 1, 100, 10.0, ()), TopicSample("a/b", 1, 300, 12.0, ())) == 100.0


def test_a_rate_settles_and_ends():
    """Smoothed a little; a tiny rest is nothing."""
    looks = [TopicSample("a/b", 1, total, at, ()) for total, at in ((100, 10.0), (300, 12.0), (300, 14.0))]
    assert rates(*looks) == 50.0
    assert rates(*looks, *(TopicSample("a/b", 1, 300, 16.0 + at, ()) for at in range(20))) == 0.0


def test_a_topic_made_anew_begins_again():
    """Its count begins at nothing; a clock that stands still tells nothing either."""
    assert rates(TopicSample("a/b", 1, 100, 10.0, ()), TopicSample("a/b", 2, 5, 12.0, ())) is None
    assert rates(TopicSample("a/b", 1, 100, 10.0, ()), TopicSample("a/b", 1, 105, 10.0, ())) is None


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
    log.add(event() for _ in range(EVENTS_KEPT + 5))
    assert len(log.newest()) == len(log.take_new()) == EVENTS_KEPT
    assert log.newest()[-1].number == 6


def test_a_priority_is_named_once():
    """It is the reason of a stalled queue."""
    log = EventLog()
    log.add([event("queue.stalled", reason="9", priority=9, message="quota", count=1)])
    assert log.newest()[0].text == "priority 9, quota"
