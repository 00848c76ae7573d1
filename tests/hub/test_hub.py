"""The hub's core: who may open a session, whom a change concerns, what is never deleted, what is told of nodes."""

import msgspec
import pytest
from tests.support.hub_core import CONFIG_MAPS, FENCE, Core
from tests.support.live import CONFIG_MAP, POD, ROUTES, SECRET, live

from fairlead_hub.cluster import sync_rule
from fairlead_hub.delivery import admission
from fairlead_hub.settings import Link
from fairlead_wire import message
from fairlead_wire.errors import Malformed

KIND = CONFIG_MAP.group_kind


@pytest.fixture
def core():
    made = Core("edge-1", "edge-2")
    made.rule(CONFIG_MAPS)
    return made


def told(headers):
    return [(type(header).__name__, header.resource.rsplit("/", 1)[1]) for header in headers]


def ready(core):
    """Nodes with frames to send now."""
    return {session.node for session in core.hub.take_ready(core.now, documents=False, kube_events=False).sessions}


# ---- opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        ({"protocol": 99}, "protocol"),
        ({"fence": FENCE + 1}, "stale_hub"),
    ],
)
def test_a_hello_we_must_not_serve_is_refused(core, hello, code):
    """With a code for programs, a reason for people, and when to come back."""
    refusal = core.refused("edge-1", **hello)
    assert refusal.code == code and refusal.reason and refusal.retry_after
    assert core.hub.counts.refused == {code: 1}
    assert core.hub.sessions == {}


def test_an_edge_may_only_say_its_own_name(core):
    """The certificate says who it is."""
    outcome = core.hub.open("edge-1", core.hello("edge-2"), 0.0)
    assert isinstance(outcome, message.Refuse) and outcome.code == "identity"
    assert "edge-1" in outcome.reason and "edge-2" in outcome.reason


def test_a_node_nobody_created_is_refused(core):
    """Once Nodes are listed; before, nobody can know."""
    assert core.refused("stranger").code == "node_unknown"
    young = Core(listed=False)
    edge = young.connect("stranger")
    young.list_all()
    assert [header.code for header in edge.sent()] == ["node_unknown"]


def test_a_full_hub_is_busy(core):
    """A known node may replace its own session all the same."""
    full = Core("edge-1", "edge-2", link=Link(nodes_max=1))
    full.connect("edge-1")
    refusal = full.refused("edge-2")
    assert (refusal.code, refusal.retry_after) == ("busy", admission.BUSY_RETRY_SECONDS)
    full.connect("edge-1")


def test_the_newest_session_wins(core):
    """The older one is told why, and its end does not touch the newer."""
    first = core.connect()
    core.now = 4.0
    second = core.connect()
    [refusal] = first.sent()
    assert refusal.code == "replaced" and "a second machine has its identity" in refusal.reason
    [event] = [each for each in core.take_kube_events() if each.reason == "Replaced"]
    assert event.message == "a newer connection took over, 4 s after the older one spoke"
    first.leave()
    assert core.hub.sessions == {"edge-1": second.session}
    assert second.session.number > first.session.number


async def test_what_a_replaced_session_says_is_not_heard(core):
    """Its acks may be of a store that the newer session does not have: a record of them would be ahead of the edge."""
    one = core.put("a")
    older = core.connect("edge-1")
    sent = older.sent()
    newer = core.connect("edge-1")  # an empty store
    older.ack(*sent)
    older.say(message.Status(), b'{"held": 7}')
    await core.flush()
    assert core.status(one) is None
    assert core.hub.node_facts("edge-1").edge is None
    upstream = message.Upstream(id=1, stream="iothub.0")
    assert not core.hub.upstream_received(older.session, upstream, core.now)
    newer.ack(*newer.sent())
    assert core.hub.upstream_received(newer.session, upstream, core.now)
    await core.flush()
    assert core.status(one)["state"] == "Synced"


def test_a_session_waits_until_the_cluster_is_listed():
    """A hub that just started compares nothing and deletes nothing."""
    young = Core("edge-1", listed=False)
    edge = young.connect("edge-1", live(CONFIG_MAP, "a"))
    assert edge.sent() == [] and not edge.session.live
    young.list_all()
    assert told(edge.sent()) == [("Delete", "a")], "only now it is certain that nobody wants it"


# ---- changes -------------------------------------------------------------------------------------


def test_a_change_has_frames_for_the_nodes_it_concerns_and_no_others(core):
    """Two of three thousand, not all."""
    core.rule({**CONFIG_MAPS}, nodeSelector={"matchLabels": {"role": "shop"}})
    core.node("edge-1", role="shop")
    core.settle()
    edge = core.connect("edge-1")
    core.connect("edge-2")
    ready(core)
    core.put("a")
    assert ready(core) == {"edge-1"}
    assert told(edge.sent()) == [("Update", "a")]


def test_a_change_without_new_content_is_counted_and_sends_nothing(core):
    """managedFields, resourceVersion: bookkeeping."""
    core.put("a")
    edge = core.connect()
    edge.ack(*edge.sent())
    ready(core)
    core.put("a", version="2", metadata={"managedFields": [{"manager": "x"}]})
    assert core.hub.counts.same_content == 1
    assert ready(core) == set() and edge.sent() == []


def test_what_a_complete_list_does_not_name_is_gone(core):
    """Deleted while the watch was down."""
    kept, gone = core.put("a"), core.put("b")
    edge = core.connect("edge-1", kept, gone)
    edge.sent()
    core.hub.relist(KIND, {kept.key: kept.uid}, 0.0)
    assert told(edge.sent()) == [("Delete", "b")]


def test_a_list_that_names_another_uid_means_a_new_object(core):
    """The old one is gone even though its name is there."""
    old = core.put("a")
    edge = core.connect("edge-1", old)
    edge.sent()
    core.hub.relist(KIND, {old.key: "another"}, 0.0)
    assert told(edge.sent()) == [("Delete", "a")]


def test_a_late_delete_of_an_older_namesake_is_ignored(core):
    """Deletes name the UID."""
    core.put("a", uid="new")
    core.hub.remove_object("configmaps/shop/a", "old", 0.0)
    assert core.hub.object_cache.get("configmaps/shop/a").uid == "new"


@pytest.mark.parametrize("doubt", ["unsynced", "frozen", "broken rule"])
def test_nothing_is_deleted_in_doubt(core, doubt):
    """A lost watch, a 403, a rule that cannot be read: what is there stays until it is certain."""
    one = core.put("a")
    edge = core.connect("edge-1", one)
    edge.sent()
    match doubt:
        case "unsynced":
            core.hub.kind_unsynced(KIND)
        case "frozen":
            core.hub.kind_frozen(KIND, "403 Forbidden")
        case _:
            unreadable(core, "r")
    core.remove(one)
    core.settle()
    assert edge.sent() == []
    assert list(edge.session.unsynced.kept()) == [one.key]
    core.hub.kind_synced(KIND)
    core.rule(CONFIG_MAPS)
    core.settle()
    assert told(edge.sent()) == [("Delete", "a")]


def unreadable(core, name, generation=1, status=None):
    body = {"metadata": {"name": name, "generation": generation}, "spec": {"resources": []}, "status": status}
    core.hub.break_rule(sync_rule.unreadable(body, "spec.resources: at least one entry is needed"), core.now)


def test_a_rule_that_cannot_be_read_holds_up_no_other_rule(core):
    """A new one selects nothing; one that was in force keeps what it selected, and everybody is told."""
    core.rule({"apiVersion": "v1", "kind": "Secret"}, name="secrets")
    one, secret = core.put("a"), core.put("s", SECRET)
    edge = core.connect("edge-1", one, secret)
    edge.sent()
    unreadable(core, "new")
    unreadable(core, "secrets")
    core.remove(one)
    core.remove(secret)
    core.settle()
    assert told(edge.sent()) == [("Delete", "a")]
    assert "SyncRule secrets cannot be read" in edge.session.unsynced.kept()[secret.key].why
    events = {each.regarding.name: each for each in core.take_kube_events()}
    assert events["new"].reason == events["secrets"].reason == "Unreadable"
    assert "selects nothing until it is mended" in events["new"].message
    assert "stays in force" in events["secrets"].message
    account = core.hub.node_facts("edge-1")
    assert "SyncRule secrets" in account.unreadable and account.kept[0][0] == secret.key
    core.rule({"apiVersion": "v1", "kind": "Secret"}, name="secrets")
    core.settle()
    assert told(edge.sent()) == [("Delete", "s")]
    assert [each.reason for each in core.take_kube_events() if each.regarding.name == "secrets"][-1] == "Readable"


def test_the_same_reason_is_told_once(core):
    """A list brings every rule again."""
    unreadable(core, "new")
    unreadable(core, "new")
    assert [each.count for each in core.take_kube_events()] == [1]


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
    assert told(edge.sent()) == [("Update", "a")]
    assert list(edge.session.unsynced.kept()) == [gone.key]
    assert one.key in after.hub.placement.desired_objects("edge-1")


async def test_what_is_kept_is_told_by_its_record(core):
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


def test_a_kind_whose_definition_vanished_stays_at_the_edge(core):
    """Discovery finds no plural any more: what the edge holds of the group may be this kind."""
    widget = msgspec.structs.replace(CONFIG_MAP, group="example.com", kind="Widget", plural="widgets")
    core.rule({"apiVersion": "example.com/v1", "kind": "Widget"}, name="widgets")
    core.hub.kind_frozen(("example.com", "Widget"), "404")
    edge = core.connect("edge-1", live(widget, "w"))
    assert edge.sent() == []
    assert "404" in next(iter(edge.session.unsynced.kept().values())).why


def test_a_kind_no_rule_names_any_more_is_deleted(core):
    """Its watch is stopped, its objects are forgotten."""
    one = core.put("a")
    edge = core.connect("edge-1", one)
    edge.sent()
    core.hub.drop_rule("r")
    core.hub.kind_dropped(KIND, 0.0)
    core.settle()
    assert told(edge.sent()) == [("Delete", "a")]
    assert len(core.hub.object_cache) == 0


def test_labels_move_a_node_in_and_out_of_a_rule(core):
    """At the next settling, once for any number of changes."""
    core.put("a")
    core.rule(CONFIG_MAPS, nodeSelector={"matchLabels": {"role": "shop"}})
    edge = core.connect()
    assert edge.sent() == []
    core.node("edge-1", role="shop")
    core.settle()
    edge.ack(*edge.sent())
    assert list(edge.session.held) == ["configmaps/shop/a"]
    core.node("edge-1", role="ship")
    core.settle()
    assert told(edge.sent()) == [("Delete", "a")]


def test_a_pod_brings_and_takes_what_it_refers_to(core):
    """Secrets named by Pods bound to the node, and none else."""
    core.hub.drop_rule("r")
    core.rule(
        {"apiVersion": "v1", "kind": "Pod", "select": "bound"},
        {"apiVersion": "v1", "kind": "Secret", "select": "referenced"},
    )
    core.put("token", SECRET)
    core.put("other", SECRET)
    edge = core.connect()
    assert edge.sent() == []
    volumes = [{"name": "v", "secret": {"secretName": "token"}}]
    pod = core.put("web", POD, spec={"nodeName": "edge-1", "volumes": volumes})
    updates = edge.sent()
    assert sorted(told(updates)) == [("Update", "token"), ("Update", "web")]
    edge.ack(*updates)
    core.put("web", POD, spec={"nodeName": "edge-1"}, version="2")
    deletes = edge.sent()
    assert sorted(told(deletes)) == [("Delete", "token"), ("Update", "web")]
    edge.ack(*deletes)
    core.remove(pod)
    assert told(edge.sent()) == [("Delete", "web")]


def test_a_record_is_written_for_each_ack_and_none_on_the_send_path(core):
    """The book fills behind the answers."""
    core.put("a")
    edge = core.connect()
    [update] = edge.sent()
    assert len(core.hub.status_cache) == 0
    edge.ack(update)
    assert len(core.hub.status_cache) == 1
    assert core.hub.counts.acks == 1


# ---- nodes ---------------------------------------------------------------------------------------


async def test_a_deleted_node_loses_its_session_and_its_records(core):
    """And the edge is told why it was sent away."""
    one = core.put("a")
    edge = core.connect()
    edge.ack(*edge.sent())
    await core.flush()
    core.hub.drop_node("edge-1", 1.0)
    assert [header.code for header in edge.sent()] == ["node_deleted"]
    await core.flush()
    assert core.status(one) is None and core.hub.sessions == {}
    assert core.refused("edge-1").code == "node_unknown"


async def test_a_node_recreated_under_its_name_starts_anew(core):
    """Another UID is another node: the old one's records go."""
    one = core.put("a")
    edge = core.connect()
    edge.ack(*edge.sent())
    await core.flush()
    core.node("edge-1", uid="another")
    assert [header.code for header in edge.sent()] == ["node_deleted"]
    await core.flush()
    assert core.status(one) is None
    core.connect("edge-1")


async def test_records_of_a_node_that_vanished_while_the_hub_was_down_are_collected(core):
    """The slow pass finds what no event told."""
    one = core.put("a")
    edge = core.connect()
    edge.ack(*edge.sent())
    await core.flush()
    edge.leave()
    core.hub.placement.rules.drop_node("edge-1")
    core.hub.reconcile(1.0)
    await core.flush()
    assert core.status(one) is None
    assert core.hub.counts.records_collected == 1


async def test_the_slow_pass_sends_what_an_event_should_have(core):
    """The safety net: differences nobody offered are offered."""
    core.put("a")
    edge = core.connect()
    edge.ack(*edge.sent())
    core.hub.object_cache.put(live(CONFIG_MAP, "missed"))
    assert edge.sent() == []
    core.hub.reconcile(1.0)
    assert told(edge.sent()) == [("Update", "missed")]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"held": "x"}', b'{"held":1,"routes":{"\xff":null}}', b'{"held":1,"x":' + b"[" * 100_000],
    ids=["empty", "cut off", "no object", "wrong type", "not UTF-8", "nested"],
)
def test_a_status_that_is_none_is_malformed(core, content):
    """Never another exception, whatever the bytes."""
    edge = core.connect()
    edge.sent()
    with pytest.raises(Malformed, match="JSON"):
        edge.say(message.Status(), content)


def test_a_claim_made_from_a_template_follows_its_pod(core):
    """The Pod is not sent again when its status names the claim; the claim is."""
    claim = msgspec.structs.replace(CONFIG_MAP, group="resource.k8s.io", kind="ResourceClaim", plural="resourceclaims")
    core.rule(
        {"apiVersion": "v1", "kind": "Pod", "select": "bound"},
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "select": "referenced"},
        name="pods",
    )
    core.hub.know_kind(claim)
    core.hub.kind_synced(claim.group_kind)
    core.put("p-gpu", claim)
    core.put("p", POD, spec={"nodeName": "edge-1"})
    edge = core.connect("edge-1")
    edge.ack(*edge.sent())
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu"}]}
    core.put("p", POD, spec={"nodeName": "edge-1"}, version="2", status=status)
    assert told(edge.sent()) == [("Update", "p-gpu")]


# ---- EdgeRoutes ---------------------------------------------------------------------------------


def routes(core, topic, name="main", **more):
    spec = {"routes": {"r": {"route": "FROM /* INTO $upstream", "topic": topic}}, **more}
    return core.put(name, ROUTES, namespace="", version=topic, spec=spec)


def test_edge_routes_the_hub_cannot_read_keep_themselves_and_nothing_else(core):
    """The field and the reason; nodes keep what they hold of it, and it comes back when it is mended."""
    good = routes(core, "default/telemetry")
    edge = core.connect("edge-1")
    edge.ack(*edge.sent())
    routes(core, "bad", nodeSelector={"site": "x"})
    assert "spec.nodeSelector" in core.hub.placement.rules.broken["edgeroutes/main"]
    core.settle()
    assert edge.sent() == [] and list(edge.session.unsynced.kept()) == [good.key]
    assert core.hub.desired_state.deletion_blocked("edge-1", "api/v1/namespaces/shop/configmaps/a") == ""
    assert [each.reason for each in core.take_kube_events() if each.regarding.kind == "EdgeRoutes"] == ["Unreadable"]
    routes(core, "default/telemetry", nodeSelector={"matchLabels": {}})
    assert core.hub.placement.rules.broken == {}
    assert told(edge.sent()) == [("Update", "main")]


def test_a_bad_topic_spoils_its_own_route_only(core):
    """The object goes to the node, who runs the good ones; their topics are granted."""
    table = {"a": {"route": "FROM /* INTO $upstream", "topic": "none"}, "b": {"route": "x", "topic": "shop/alarms"}}
    core.put("main", ROUTES, namespace="", spec={"routes": table})
    core.connect("edge-1").sent()
    assert core.hub.placement.rules.broken == {}
    assert core.hub.grants.of("edge-1") == {"default/telemetry", "shop/alarms"}


async def test_routes_are_sent_when_their_topics_are_durably_granted(core):
    """A hub killed after the node got them would otherwise know nothing of the grant."""
    one = routes(core, "shop/alarms")
    edge = core.connect("edge-1")
    assert edge.sent() == [] and "shop/alarms" in edge.session.unsynced.withheld()[one.key].why
    core.hub.report(1.0)
    await core.flush()
    assert "shop/alarms" in core.api.documents[("edgenodes", "", "edge-1")].status["grantedTopics"]
    core.hub.report(2.0)
    edge.ack(*edge.sent())
    assert edge.session.held.keys() == {one.key}
    assert edge.session.unsynced.withheld() == {}


async def test_a_change_of_topics_waits_and_an_older_one_does_not_overtake(core):
    """Each version waits for its own topics; what the node holds stays in force meanwhile."""
    first = routes(core, "default/telemetry")
    edge = core.connect("edge-1")
    edge.ack(*edge.sent())
    routes(core, "shop/alarms")
    routes(core, "shop/others")
    assert edge.sent() == [] and edge.session.held[first.key].digest == first.digest
    core.hub.report(1.0)
    await core.flush()
    core.hub.edge_node_observed("edge-1", core.hub.status_cache.observed[("edgenodes", "", "edge-1")], {}, 1.5)
    assert told(edge.sent()) == [("Update", "main")]


def test_deleted_edge_routes_are_deleted_at_the_edge(core):
    """Like any other object."""
    one = routes(core, "shop/alarms")
    edge = core.connect("edge-1", one)
    assert edge.sent() == []
    core.remove(one)
    assert told(edge.sent()) == [("Delete", "main")]
    assert "shop/alarms" in core.hub.grants.of("edge-1")
