"""One node as one row."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, NOON, Core

from fairlead_hub.console import node_line
from fairlead_hub.settings import DeletionGuardSettings


@pytest.fixture
def core():
    return Core("edge-1").rule(CONFIG_MAPS)


def line(core):
    return node_line.of(core.hub.view, "edge-1", core.hub.view.session("edge-1"))


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
