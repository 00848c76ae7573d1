"""Topics a node may name: what its EdgeRoutes say, and what they ever said."""

from tests.support.hubs.hub_core import Core, routes

from fairlead_hub.cluster.listed import EDGE_NODES


def test_topics_come_from_edge_routes_that_select_the_node(core):
    """The default topic is everybody's."""
    routes(core, "shop/alarms", nodeSelector={"matchLabels": {"role": "shop"}})
    core.node("edge-1", role="shop")
    core.settle()
    core.connect("edge-1")
    core.connect("edge-2")
    assert core.hub.grants.of("edge-1") == {"default/telemetry", "shop/alarms"}
    assert core.hub.grants.of("edge-2") == {"default/telemetry"}
    assert core.hub.grants.topics() == {"default/telemetry", "shop/alarms"}


async def test_a_topic_once_granted_stays_granted_over_a_restart(core):
    """Messages routed before a change must not be refused after it."""
    routes(core, "shop/alarms")
    edge = core.connect()
    routes(core, "shop/others")
    assert core.hub.grants.of("edge-1") >= {"shop/alarms", "shop/others"}
    core.hub.report(1.0)
    await core.flush()
    edge.leave()
    after = Core("edge-1")
    after.hub.documents.edge_node_observed("edge-1", core.api.documents[(EDGE_NODES, "", "edge-1")], {}, after.now)
    assert after.hub.grants.of("edge-1") >= {"shop/alarms", "shop/others"}


def test_fairleads_own_topics_are_never_granted(core):
    """Whatever EdgeRoutes or an EdgeNode document say: no node can make events up."""
    routes(core, "system/events")
    core.connect()
    core.hub.grants.remember("edge-1", ["system/events", "shop/alarms"])
    assert core.hub.grants.of("edge-1") == {"default/telemetry", "shop/alarms"}
    assert core.hub.grants.topics() == {"default/telemetry"}


def test_topics_are_not_judged_before_everything_is_listed():
    """A message must not be refused because the hub just started."""
    young = Core("edge-1", listed=False)
    assert young.hub.view.topics_unknown() == "nodes are not listed yet"
    young.list_all()
    assert young.hub.view.topics_unknown() == ""
