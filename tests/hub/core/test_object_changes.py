"""Objects and lists: which nodes a change concerns, and what is certain."""

import msgspec
from tests.support.hubs.hub_core import CONFIG_MAPS, short
from tests.support.hubs.live import CONFIG_MAP, POD, SECRET, live

KIND = CONFIG_MAP.group_kind


def ready(core):
    """Nodes with frames to send now."""
    return {output.session.node for output in core.take_ready(documents=False, kube_events=False).sessions}


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
    assert short(edge.sent()) == [("Update", "a")]


def test_a_change_without_new_content_is_counted_and_sends_nothing(core):
    """managedFields, resourceVersion: bookkeeping."""
    core.put("a")
    edge = core.served()
    ready(core)
    core.put("a", version="2", metadata={"managedFields": [{"manager": "x"}]})
    assert core.hub.counts.same_content == 1
    assert ready(core) == set() and edge.sent() == []


def test_what_a_complete_list_does_not_name_is_gone(core):
    """Deleted while the watch was down."""
    kept, gone = core.put("a"), core.put("b")
    edge = core.opened("edge-1", kept, gone)
    core.hub.cluster.relist(KIND, {kept.key: kept.uid}, 0.0)
    assert short(edge.sent()) == [("Delete", "b")]


def test_a_list_that_names_another_uid_means_a_new_object(core):
    """The old one is gone even though its name is there."""
    old = core.put("a")
    edge = core.opened("edge-1", old)
    core.hub.cluster.relist(KIND, {old.key: "another"}, 0.0)
    assert short(edge.sent()) == [("Delete", "a")]


def test_a_kind_whose_definition_vanished_stays_at_the_edge(core):
    """Discovery finds no plural any more: what the edge holds of the group may be this kind."""
    widget = msgspec.structs.replace(CONFIG_MAP, group="example.com", kind="Widget", plural="widgets")
    core.rule({"apiVersion": "example.com/v1", "kind": "Widget"}, name="widgets")
    core.hub.cluster.kind_frozen(("example.com", "Widget"), "404")
    edge = core.connect("edge-1", live(widget, "w"))
    assert edge.sent() == []
    assert "404" in next(iter(edge.session.keys.unsynced.kept().values())).why


def test_a_kind_no_rule_names_any_more_is_deleted(core):
    """Its watch is stopped, its objects are forgotten."""
    one = core.put("a")
    edge = core.opened("edge-1", one)
    core.hub.cluster.drop_rule("r")
    core.hub.cluster.kind_dropped(KIND)
    core.settle()
    assert short(edge.sent()) == [("Delete", "a")]
    assert len(core.hub.object_cache) == 0


def test_a_pod_brings_and_takes_what_it_refers_to(core):
    """Secrets named by Pods bound to the node, and none else."""
    core.hub.cluster.drop_rule("r")
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
    assert sorted(short(updates)) == [("Update", "token"), ("Update", "web")]
    edge.ack(*updates)
    core.put("web", POD, spec={"nodeName": "edge-1"}, version="2")
    deletes = edge.sent()
    assert sorted(short(deletes)) == [("Delete", "token"), ("Update", "web")]
    edge.ack(*deletes)
    core.remove(pod)
    assert short(edge.sent()) == [("Delete", "web")]


def test_a_claim_made_from_a_template_follows_its_pod(core):
    """The Pod is not sent again when its status names the claim; the claim is."""
    claim = msgspec.structs.replace(CONFIG_MAP, group="resource.k8s.io", kind="ResourceClaim", plural="resourceclaims")
    core.rule(
        {"apiVersion": "v1", "kind": "Pod", "select": "bound"},
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "select": "referenced"},
        name="pods",
    )
    core.hub.cluster.know_kind(claim)
    core.hub.cluster.kind_synced(claim.group_kind)
    core.put("p-gpu", claim)
    core.put("p", POD, spec={"nodeName": "edge-1"})
    edge = core.served("edge-1")
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu"}]}
    core.put("p", POD, spec={"nodeName": "edge-1"}, version="2", status=status)
    assert short(edge.sent()) == [("Update", "p-gpu")]
