"""Edge Nodes: relabelled, deleted, made anew."""

from tests.support.hubs.hub_core import CONFIG_MAPS, short
from tests.support.hubs.live import CONFIG_MAP

KIND = CONFIG_MAP.group_kind


def test_labels_move_a_node_in_and_out_of_a_rule(core):
    """At the next settling, once for any number of changes."""
    core.put("a")
    core.rule(CONFIG_MAPS, nodeSelector={"matchLabels": {"role": "shop"}})
    edge = core.connect()
    assert edge.sent() == []
    core.node("edge-1", role="shop")
    core.settle()
    edge.ack(*edge.sent())
    assert list(edge.session.keys.held) == ["configmaps/shop/a"]
    core.node("edge-1", role="ship")
    core.settle()
    assert short(edge.sent()) == [("Delete", "a")]


async def test_a_deleted_node_loses_its_session_and_its_records(core):
    """And the edge hears why it was sent away."""
    one = core.put("a")
    edge = core.served()
    await core.flush()
    core.hub.cluster.drop_node("edge-1", 1.0)
    assert [header.code for header in edge.sent()] == ["node_deleted"]
    await core.flush()
    assert core.status(one) is None and core.hub.open_sessions.by_node == {}
    assert core.refused("edge-1").code == "node_unknown"


async def test_a_node_recreated_under_its_name_starts_anew(core):
    """Another UID is another node: the old one's records go."""
    one = core.put("a")
    edge = core.served()
    await core.flush()
    core.node("edge-1", uid="another")
    assert [header.code for header in edge.sent()] == ["node_deleted"]
    await core.flush()
    assert core.status(one) is None
    core.connect("edge-1")
