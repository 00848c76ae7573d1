"""Which node should hold which object, and when nothing may be taken away."""

import pytest
from tests.support.live import CONFIG_MAP, POD, ROUTES, SECRET, live

from fairlead_hub import rules
from fairlead_hub.catalog import Catalog
from fairlead_hub.placement import INPUTS, Placement
from fairlead_hub.settings import Delivery


@pytest.fixture
def placement():
    made = Placement(Catalog(), Delivery())
    made.set_node("edge-1", {"role": "shop"})
    made.set_node("edge-2", {"role": "ship"})
    made.inputs_synced.update(INPUTS)
    return made


def add_rule(placement, *resources, name="r", **spec):
    placement.set_rule(rules.rule({"metadata": {"name": name}, "spec": {"resources": list(resources), **spec}}))


def put(placement, *objects):
    for one in objects:
        placement.catalog.put(one)
    return objects[0]


ALL_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
BOUND = {"apiVersion": "v1", "kind": "Pod", "select": "bound"}
REFERENCED = {"apiVersion": "v1", "kind": "Secret", "select": "referenced"}


def test_no_rule_no_object(placement):
    """Nothing is sent but EdgeRoutes."""
    one = put(placement, live(CONFIG_MAP, "a"))
    assert placement.wanted("edge-1") == {}
    assert placement.wish("edge-1", one) is None
    assert placement.nodes_for(one) == set()


def test_a_rule_selects_nodes_by_their_labels(placement):
    """A relabelled node enters and leaves."""
    add_rule(placement, ALL_MAPS, nodeSelector={"matchLabels": {"role": "shop"}})
    one = put(placement, live(CONFIG_MAP, "a"))
    assert placement.nodes_for(one) == {"edge-1"}
    assert placement.set_node("edge-2", {"role": "shop"})
    assert placement.nodes_for(one) == {"edge-1", "edge-2"}
    assert placement.nodes_for(one, {"edge-2": None}) == {"edge-2"}
    assert placement.nodes_for(one, dict.fromkeys(("edge-1", "edge-3", "edge-4"))) == {"edge-1"}
    assert not placement.set_node("edge-2", {"role": "shop"}), "a heartbeat is no change"
    assert placement.drop_node("edge-1")
    assert placement.wanted("edge-1") == {}


def test_bound_and_referenced_follow_the_pods(placement):
    """Pods go to their node, and what they mount goes with them."""
    add_rule(placement, BOUND, REFERENCED)
    pod = live(POD, "p", spec={"nodeName": "edge-1", "volumes": [{"secret": {"secretName": "s"}}]})
    secret, other = live(SECRET, "s"), live(SECRET, "other")
    put(placement, pod, secret, other)
    assert set(placement.wanted("edge-1")) == {pod.key, secret.key}
    assert placement.wanted("edge-2") == {}
    assert placement.nodes_for(secret) == {"edge-1"}
    assert placement.wish("edge-1", other) is None


def test_the_most_urgent_rule_counts_and_the_first_rules_delivery(placement):
    """By rule name, not by who was created first."""
    add_rule(placement, {**ALL_MAPS, "priority": 1}, name="b")
    add_rule(placement, {**ALL_MAPS, "priority": 7, "delivery": {"retries_max": 2}}, name="a")
    wish = placement.wish("edge-1", put(placement, live(CONFIG_MAP, "a")))
    assert (wish.priority, wish.delivery.retries_max) == (1, 2)


def test_edge_routes_need_no_rule(placement):
    """They go to the nodes their own selector names, before everything else."""
    selector, table = {"matchLabels": {"role": "ship"}}, {"a": {"route": "x", "topic": "d/t"}}
    body = {"metadata": {"name": "main", "uid": "u"}, "spec": {"nodeSelector": selector, "routes": table}}
    placement.routes["main"] = rules.routes(body)
    one = put(placement, live(ROUTES, "main"))
    assert placement.nodes_for(one) == {"edge-2"}
    assert placement.wish("edge-2", one).priority == rules.ROUTES_PRIORITY
    assert placement.topics_of("edge-2") == {"default/telemetry", "d/t"}
    assert placement.topics_of("edge-1") == {"default/telemetry"}


def test_a_dropped_rule_takes_its_wishes_along(placement):
    """And says which nodes it concerned."""
    add_rule(placement, ALL_MAPS)
    put(placement, live(CONFIG_MAP, "a"))
    assert placement.drop_rule("r") == {"edge-1", "edge-2"}
    assert placement.wanted("edge-1") == {}
    assert placement.drop_rule("r") == frozenset()


def test_nothing_is_deleted_before_everything_is_listed(placement):
    """A cache that is not synced proves nothing."""
    add_rule(placement, ALL_MAPS)
    kind = CONFIG_MAP.group_kind
    assert "ConfigMap is not listed yet" in placement.doubt("edge-1", kind)
    placement.synced.add(kind)
    assert placement.doubt("edge-1", kind) == ""
    placement.inputs_synced.discard("syncrules")
    assert "syncrules" in placement.doubt("edge-1", kind)


def test_a_kind_that_cannot_be_listed_freezes_what_is_there(placement):
    """403 or a CRD that is gone: nothing of the kind is deleted, other kinds go on."""
    add_rule(placement, ALL_MAPS, REFERENCED)
    placement.synced.update({CONFIG_MAP.group_kind, POD.group_kind})
    placement.frozen[SECRET.group_kind] = "403 Forbidden"
    assert placement.waiting_for("edge-1") == ""
    assert "403" in placement.doubt("edge-1", SECRET.group_kind)
    assert placement.doubt("edge-1", CONFIG_MAP.group_kind) == ""


def test_references_are_uncertain_while_pods_cannot_be_listed(placement):
    """Without the Pods nobody knows what is referenced."""
    add_rule(placement, REFERENCED)
    assert POD.group_kind in placement.kinds()
    placement.synced.add(SECRET.group_kind)
    placement.frozen[POD.group_kind] = "403 Forbidden"
    assert "Pod" in placement.doubt("edge-1", SECRET.group_kind)


def test_a_rule_that_cannot_be_read_deletes_nothing(placement):
    """A typing error in a rule must not empty a node."""
    placement.broken["syncrules/r"] = "spec.resources: at least one entry is needed"
    assert "syncrules/r cannot be read" in placement.doubt("edge-1", CONFIG_MAP.group_kind)
    add_rule(placement, ALL_MAPS)
    placement.synced.add(CONFIG_MAP.group_kind)
    assert placement.doubt("edge-1", CONFIG_MAP.group_kind) == ""
