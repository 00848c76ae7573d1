"""What became of deliveries and sessions: status, Kubernetes Events, CloudEvents and totals, each once."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core


@pytest.fixture
def core():
    return Core("edge-1", messaging_url="http://127.0.0.1:9").rule(CONFIG_MAPS)


def test_an_ack_is_a_total_and_a_status_and_no_event(core):
    """What goes well is not worth an Event."""
    core.put("a")
    core.served()
    assert core.hub.counts.acks == 1 and sum(core.hub.counts.latency) == 1
    assert core.take_kube_events() == []
    assert [event.type for event in core.take_cloud_events()] == ["node.connected"]


def test_a_newer_connection_is_an_event_and_the_node_is_not_away(core):
    """Again and again, it is two machines with one identity."""
    core.connect()
    core.connect()
    assert [event.reason for event in core.take_kube_events()] == ["Replaced"]
    types = [event.type for event in core.take_cloud_events()]
    assert "node.away" not in types and types.count("node.connected") == 2
    assert core.hub.counts.handshakes == 2 and core.hub.counts.refused == {"replaced": 1}


def test_a_session_that_ends_is_reported_once(core):
    """Whether it was refused or its connection broke."""
    edge = core.connect()
    core.hub.cluster.drop_node("edge-1", core.now)
    edge.leave()
    assert [event.type for event in core.take_cloud_events()] == ["node.connected", "node.away"]
    assert core.hub.counts.refused == {"node_deleted": 1}
