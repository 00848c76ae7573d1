"""What time alone asks of the core: what is kept, collected and sent again."""

from tests.support.hubs.hub_core import CONFIG_MAPS, short, unreadable
from tests.support.hubs.live import CONFIG_MAP, live

KIND = CONFIG_MAP.group_kind


async def test_what_is_kept_is_said_by_its_status(core):
    """It should go and does not, and why."""
    one = core.put("a")
    edge = core.opened("edge-1", one)
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
    edge = core.served()
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
    edge = core.served()
    core.hub.object_cache.put(live(CONFIG_MAP, "missed"))
    assert edge.sent() == []
    core.hub.reconcile(1.0)
    assert short(edge.sent()) == [("Update", "missed")]
