"""Rules and routes as they come, and what says so when one cannot be read."""

from tests.support.hubs.live import ROUTES, live

from fairlead_hub.cluster import content, sync_rule


def unreadable(name, why="spec: why"):
    return sync_rule.unreadable({"metadata": {"name": name}}, why)


def short(*reads):
    return [(each.notice.kind, each.notice.name, each.notice.reason) for each in reads if each.notice is not None]


def test_breaking_and_mending_are_each_reported_once(core):
    """Lists bring the same rule again and again."""
    reader, good = core.hub.cluster._rules, core.hub.placement.rules.readable["r"]
    broken = [reader.unreadable(unreadable("r")) for _ in range(4)]
    assert [each.nodes for each in broken] == [{"edge-1", "edge-2"}, set(), set(), set()], "compared again once"
    assert short(*broken) == [("SyncRule", "r", "Unreadable")]
    mended = [reader.read(good) for _ in range(3)]
    assert all(each.nodes == {"edge-1", "edge-2"} for each in mended)
    assert short(*mended) == [("SyncRule", "r", "Readable")]


def test_another_reason_is_news(core):
    """The text of the event is the newest."""
    core.hub.cluster.break_rule(unreadable("r"), core.now)
    core.hub.cluster.break_rule(unreadable("r", "spec.resources: none"), core.now)
    [event] = core.take_kube_events()
    assert event.count == 2 and event.message.startswith("spec.resources: none; its last readable form")


def test_a_rule_that_goes_takes_what_was_reported_along(core):
    """The nodes it concerned are compared again, and their status says nothing of it any more."""
    core.hub.cluster.break_rule(unreadable("r"), core.now)
    assert "SyncRule r" in core.hub.view.facts("edge-1").unreadable
    assert core.hub.cluster._rules.gone("r").nodes == {"edge-1", "edge-2"}
    assert core.hub.view.facts("edge-1").unreadable == ""


def routes(**spec):
    return live(ROUTES, "main", namespace="", spec=spec)


def test_routes_are_read_for_their_nodes_and_topics(core):
    """What each route says is for the nodes to judge."""
    reader, placement = core.hub.cluster._rules, core.hub.placement
    first = reader.routes_seen(routes(routes={"a": 7, "b": {"topic": "shop/alarms"}}))
    assert placement.rules.routes["main"].topics == {"default/telemetry", "shop/alarms"}
    broken = reader.routes_seen(routes(nodeSelector=["x"]))
    assert "main" not in placement.rules.routes and "edgeroutes/main" in placement.rules.broken
    mended = reader.routes_seen(routes())
    assert "main" in placement.rules.routes and placement.rules.broken == {}
    assert short(first, broken, mended) == [("EdgeRoutes", "main", "Unreadable"), ("EdgeRoutes", "main", "Readable")]
    reader.routes_gone("main")
    assert placement.rules.routes == {} == placement.rules.broken


def test_routes_no_edge_could_read_are_unreadable_here_too(core):
    """Nested deeper than a decoder goes."""
    deep = routes(routes={})
    deep.problem = content.UndeliverableObject("too_deep", "nested deeper than 100 levels")
    core.hub.cluster._rules.routes_seen(deep)
    assert core.hub.placement.rules.broken["edgeroutes/main"] == "nested deeper than 100 levels"
