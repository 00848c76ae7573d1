"""Rules and routes as they come, and who is told when one cannot be read."""

import pytest
from tests.support.hub_core import CONFIG_MAPS, Core
from tests.support.live import ROUTES, live

from fairlead_hub.cluster import content, sync_rule


@pytest.fixture
def core():
    made = Core("edge-1", "edge-2")
    made.rule(CONFIG_MAPS)
    return made


def unreadable(name, why="spec: why"):
    return sync_rule.unreadable({"metadata": {"name": name}}, why)


def events(core):
    return [(each.regarding.kind, each.regarding.name, each.reason) for each in core.hub.kube_events.take()]


def test_breaking_and_mending_are_each_told_once(core):
    """Lists bring the same rule again and again."""
    reader, good = core.hub.rules, core.hub.placement.rules["r"]
    assert reader.unreadable(unreadable("r")) == {"edge-1", "edge-2"}
    for _ in range(3):
        assert reader.unreadable(unreadable("r")) == frozenset(), "nobody is compared again for the same"
    assert events(core) == [("SyncRule", "r", "Unreadable")]
    for _ in range(3):
        assert reader.read(good) == {"edge-1", "edge-2"}
    assert events(core) == [("SyncRule", "r", "Readable")]


def test_another_reason_is_news(core):
    """The text of the event is the newest."""
    core.hub.rules.unreadable(unreadable("r"))
    core.hub.rules.unreadable(unreadable("r", "spec.resources: none"))
    [event] = core.hub.kube_events.take()
    assert event.count == 2 and event.message.startswith("spec.resources: none; its last readable form")


def test_a_rule_that_goes_takes_what_was_told_along(core):
    """Those it concerned are told again."""
    core.hub.rules.unreadable(unreadable("r"))
    assert "SyncRule r" in core.hub.node_status.of("edge-1").unreadable
    assert core.hub.rules.gone("r") == {"edge-1", "edge-2"}
    assert core.hub.node_status.of("edge-1").unreadable == ""


def routes(**spec):
    return live(ROUTES, "main", namespace="", spec=spec)


def test_routes_are_read_for_their_nodes_and_topics(core):
    """What each route says is for the nodes to judge."""
    reader, placement = core.hub.rules, core.hub.placement
    assert reader.routes_seen(routes(routes={"a": 7, "b": {"topic": "shop/alarms"}}), 0.0)
    assert placement.routes["main"].topics == {"default/telemetry", "shop/alarms"}
    assert not reader.routes_seen(routes(nodeSelector=["x"]), 0.0)
    assert "main" not in placement.routes and "edgeroutes/main" in placement.broken
    assert reader.routes_seen(routes(), 0.0) and placement.broken == {}
    assert events(core) == [("EdgeRoutes", "main", "Unreadable"), ("EdgeRoutes", "main", "Readable")]
    reader.routes_gone("main", 0.0)
    assert placement.routes == {} == placement.broken


def test_routes_no_edge_could_read_are_unreadable_here_too(core):
    """Nested deeper than anybody decodes."""
    deep = routes(routes={})
    deep.problem = content.Undeliverable("too_deep", "nested deeper than 100 levels")
    assert not core.hub.rules.routes_seen(deep, 0.0)
    assert core.hub.placement.broken["edgeroutes/main"] == "nested deeper than 100 levels"
