"""What time alone asks of the core: what is kept, collected and sent again."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.cluster import sync_rule

KIND = CONFIG_MAP.group_kind


@pytest.fixture
def core():
    made = Core("edge-1", "edge-2")
    made.rule(CONFIG_MAPS)
    return made


def short(headers):
    return [(type(header).__name__, header.resource.rsplit("/", 1)[1]) for header in headers]


def unreadable(core, name, generation=1, status=None):
    body = {"metadata": {"name": name, "generation": generation}, "spec": {"resources": []}, "status": status}
    core.hub.break_rule(sync_rule.unreadable(body, "spec.resources: at least one entry is needed"), core.now)


async def test_what_is_kept_is_said_by_its_status(core):
    """It should go and does not, and why."""
    one = core.put("a")
    edge = core.connect("edge-1", one)
    edge.sent()
    unreadable(core, "r")
    core.remove(one)
    edge.sent()
    core.hub.sweep(core.now)
    await core.flush()
    status = core.status(one)
    assert (status["state"], status["reason"]) == ("Deleting", "Kept")
    assert "SyncRule r cannot be read" in str(status["conditions"])
    core.rule(CONFIG_MAPS)
    core.settle()
    edge.ack(*edge.sent())
    await core.flush()
    assert core.status(one) is None


async def test_records_of_a_node_that_vanished_while_the_hub_was_down_are_collected(core):
    """The slow pass finds what no event reported."""
    one = core.put("a")
    edge = core.connect()
    edge.ack(*edge.sent())
    await core.flush()
    edge.leave()
    core.hub.placement.rules.drop_node("edge-1")
    core.hub.reconcile(1.0)
    await core.flush()
    assert core.status(one) is None
    assert core.hub.counts.objectsyncs_collected == 1


async def test_the_slow_pass_sends_what_an_event_should_have(core):
    """The safety net: differences that were not offered are offered."""
    core.put("a")
    edge = core.connect()
    edge.ack(*edge.sent())
    core.hub.object_cache.put(live(CONFIG_MAP, "missed"))
    assert edge.sent() == []
    core.hub.reconcile(1.0)
    assert short(edge.sent()) == [("Update", "missed")]
