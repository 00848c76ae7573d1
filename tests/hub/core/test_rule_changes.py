"""SyncRules and EdgeRoutes: what follows when one changes, cannot be read, or goes."""

from tests.support.hubs.hub_core import CONFIG_MAPS, Core, routes, short, unreadable
from tests.support.hubs.live import CONFIG_MAP, ROUTES, SECRET, live

from fairlead_hub.cluster import sync_rule

KIND = CONFIG_MAP.group_kind


def test_an_unreadable_rule_delays_no_other_rule(core):
    """A new one selects nothing; one that was in force keeps what it selected, and rule, nodes and Events say so."""
    core.rule({"apiVersion": "v1", "kind": "Secret"}, name="secrets")
    one, secret = core.put("a"), core.put("s", SECRET)
    edge = core.opened("edge-1", one, secret)
    unreadable(core, "new")
    unreadable(core, "secrets")
    core.remove(one)
    core.remove(secret)
    core.settle()
    assert short(edge.sent()) == [("Delete", "a")]
    assert "SyncRule secrets cannot be read" in edge.session.keys.unsynced.kept()[secret.key].why
    events = {each.regarding.name: each for each in core.take_kube_events()}
    assert events["new"].reason == events["secrets"].reason == "Unreadable"
    assert "selects nothing until it is fixed" in events["new"].message
    assert "stays in force" in events["secrets"].message
    account = core.hub.view.facts("edge-1")
    assert "SyncRule secrets" in account.unreadable and account.kept[0][0] == secret.key
    core.rule({"apiVersion": "v1", "kind": "Secret"}, name="secrets")
    core.settle()
    assert short(edge.sent()) == [("Delete", "s")]
    assert [each.reason for each in core.take_kube_events() if each.regarding.name == "secrets"][-1] == "Readable"


def test_a_hub_that_starts_anew_keeps_what_an_unreadable_rule_selected(core):
    """Its form stands in the status of the rule; what it selects is delivered on and not removed."""
    form = sync_rule.rule({"metadata": {"name": "r"}, "spec": {"resources": [CONFIG_MAPS]}}).form
    after = Core("edge-1", listed=False)
    status = {"observedGeneration": 2, "lastReadable": {"generation": 1, "spec": form}}
    unreadable(after, "r", generation=2, status=status)
    after.list_all()
    one, gone = after.put("a"), live(CONFIG_MAP, "gone")
    edge = after.connect("edge-1", gone)
    after.settle()
    assert short(edge.sent()) == [("Update", "a")]
    assert list(edge.session.keys.unsynced.kept()) == [gone.key]
    assert one.key in after.hub.placement.desired_objects("edge-1")


def test_edge_routes_the_hub_cannot_read_keep_themselves_and_nothing_else(core):
    """The field and the reason; nodes keep what they hold of it, and it comes back when it is mended."""
    good = routes(core, "default/telemetry")
    edge = core.served("edge-1")
    routes(core, "bad", nodeSelector={"site": "x"})
    assert "spec.nodeSelector" in core.hub.placement.rules.broken["edgeroutes/main"]
    core.settle()
    assert edge.sent() == [] and list(edge.session.keys.unsynced.kept()) == [good.key]
    assert core.hub.desired_state.deletion_blocked("edge-1", "api/v1/namespaces/shop/configmaps/a") == ""
    assert [each.reason for each in core.take_kube_events() if each.regarding.kind == "EdgeRoutes"] == ["Unreadable"]
    routes(core, "default/telemetry", nodeSelector={"matchLabels": {}})
    assert core.hub.placement.rules.broken == {}
    assert short(edge.sent()) == [("Update", "main")]


def test_a_bad_topic_spoils_its_own_route_only(core):
    """The object goes to the node, who runs the good ones; their topics are granted."""
    table = {"a": {"route": "FROM /* INTO $upstream", "topic": "none"}, "b": {"route": "x", "topic": "shop/alarms"}}
    core.put("main", ROUTES, namespace="", spec={"routes": table})
    core.connect("edge-1").sent()
    assert core.hub.placement.rules.broken == {}
    assert core.hub.grants.of("edge-1") == {"default/telemetry", "shop/alarms"}


def test_deleted_edge_routes_are_deleted_at_the_edge(core):
    """Like any other object."""
    one = routes(core, "shop/alarms")
    edge = core.connect("edge-1", one)
    assert edge.sent() == []
    core.remove(one)
    assert short(edge.sent()) == [("Delete", "main")]
    assert "shop/alarms" in core.hub.grants.of("edge-1")
