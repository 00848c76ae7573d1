"""EdgeNodes as they stand in the API: what was granted there may be sent."""

from tests.support.hubs.hub_core import routes, short
from tests.support.hubs.live import CONFIG_MAP

from fairlead_hub.status.status_cache import Observed

KIND = CONFIG_MAP.group_kind


async def test_routes_are_sent_when_their_topics_are_durably_granted(core):
    """A hub killed after the node got them would otherwise know nothing of the grant."""
    one = routes(core, "shop/alarms")
    edge = core.connect("edge-1")
    assert edge.sent() == [] and "shop/alarms" in edge.session.keys.unsynced.withheld()[one.key].why
    core.hub.report(1.0)
    await core.flush()
    assert "shop/alarms" in core.api.documents[("edgenodes", "", "edge-1")].status["grantedTopics"]
    core.hub.report(2.0)
    edge.ack(*edge.sent())
    assert edge.session.keys.held.keys() == {one.key}
    assert edge.session.keys.unsynced.withheld() == {}


async def test_a_change_of_topics_waits_and_an_older_one_does_not_overtake(core):
    """Each version waits for its own topics; what the node holds stays in force meanwhile."""
    first = routes(core, "default/telemetry")
    edge = core.served("edge-1")
    routes(core, "shop/alarms")
    routes(core, "shop/others")
    assert edge.sent() == [] and edge.session.keys.held[first.key].digest == first.digest
    core.hub.report(1.0)
    await core.flush()
    there = core.hub.status_cache.observed[("edgenodes", "", "edge-1")]
    core.hub.documents.edge_node_observed("edge-1", there, {}, 1.5)
    assert short(edge.sent()) == [("Update", "main")]


async def test_a_resync_sends_what_the_edge_lost_without_our_knowing(core):
    """The session ends with a reason an older agent knows, and the next opening compares everything."""
    one = core.put("a")
    edge = core.served("edge-1")
    there = Observed(version="1", generation=1, status={}, head={})
    core.hub.documents.edge_node_observed("edge-1", there, {}, core.now)
    edge.held.clear()  # a disk put back from a copy
    assert edge.sent() == []
    core.hub.documents.edge_node_observed("edge-1", there, {"fairlead.dev/resync": "2026-11-22T10:00:00Z"}, core.now)
    assert edge.session.closing is not None and edge.session.closing.code == "draining"
    edge.leave()
    again = core.connect("edge-1")
    assert short(again.sent()) == [("Update", "a")] and one.key
    core.hub.documents.edge_node_observed("edge-1", there, {"fairlead.dev/resync": "2026-11-22T10:00:00Z"}, core.now)
    assert again.session.closing is None
