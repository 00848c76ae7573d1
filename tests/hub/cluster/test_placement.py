"""Which node should hold which object."""

import pytest
from tests.support.hubs.live import CONFIG_MAP, POD, ROUTES, SECRET, live

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.settings import NodeDelivery


@pytest.fixture
def placement():
    made = Placement(ObjectCache(), NodeDelivery())
    made.rules.set_node("edge-1", {"role": "shop"})
    made.rules.set_node("edge-2", {"role": "ship"})
    return made


def add_rule(placement, *resources, name="r", **spec):
    placement.rules.set_rule(
        sync_rule.rule({"metadata": {"name": name}, "spec": {"resources": list(resources), **spec}})
    )


def put(placement, *objects):
    for one in objects:
        placement.object_cache.put(one)
    return objects[0]


ALL_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
BOUND = {"apiVersion": "v1", "kind": "Pod", "select": "bound"}
REFERENCED = {"apiVersion": "v1", "kind": "Secret", "select": "referenced"}


def test_no_rule_no_object(placement):
    """Nothing is sent but EdgeRoutes."""
    one = put(placement, live(CONFIG_MAP, "a"))
    assert placement.desired_objects("edge-1") == {}
    assert placement.desired("edge-1", one) is None
    assert placement.nodes_for(one) == set()


def test_a_rule_selects_nodes_by_their_labels(placement):
    """A relabelled node enters and leaves."""
    add_rule(placement, ALL_MAPS, nodeSelector={"matchLabels": {"role": "shop"}})
    one = put(placement, live(CONFIG_MAP, "a"))
    assert placement.nodes_for(one) == {"edge-1"}
    assert placement.rules.set_node("edge-2", {"role": "shop"})
    assert placement.nodes_for(one) == {"edge-1", "edge-2"}
    assert placement.nodes_for(one, {"edge-2": None}) == {"edge-2"}
    assert placement.nodes_for(one, dict.fromkeys(("edge-1", "edge-3", "edge-4"))) == {"edge-1"}
    assert not placement.rules.set_node("edge-2", {"role": "shop"}), "a heartbeat is no change"
    assert placement.rules.drop_node("edge-1")
    assert placement.desired_objects("edge-1") == {}


def test_bound_and_referenced_follow_the_pods(placement):
    """Pods go to their node, and what they mount goes with them."""
    add_rule(placement, BOUND, REFERENCED)
    pod = live(POD, "p", spec={"nodeName": "edge-1", "volumes": [{"secret": {"secretName": "s"}}]})
    secret, other = live(SECRET, "s"), live(SECRET, "other")
    put(placement, pod, secret, other)
    assert set(placement.desired_objects("edge-1")) == {pod.key, secret.key}
    assert placement.desired_objects("edge-2") == {}
    assert placement.nodes_for(secret) == {"edge-1"}
    assert placement.desired("edge-1", other) is None


def test_the_most_urgent_rule_counts_and_the_first_rules_delivery(placement):
    """By rule name, not by who was created first."""
    add_rule(placement, {**ALL_MAPS, "priority": 1}, name="b")
    add_rule(placement, {**ALL_MAPS, "priority": 7, "delivery": {"retries_max": 2}}, name="a")
    desired = placement.desired("edge-1", put(placement, live(CONFIG_MAP, "a")))
    assert (desired.priority, desired.delivery.retries_max) == (1, 2)


def test_edge_routes_need_no_rule(placement):
    """They go to the nodes their own selector names, before everything else."""
    selector, table = {"matchLabels": {"role": "ship"}}, {"a": {"route": "x", "topic": "d/t"}}
    body = {"metadata": {"name": "main", "uid": "u"}, "spec": {"nodeSelector": selector, "routes": table}}
    placement.rules.routes["main"] = sync_rule.routes(body)
    one = put(placement, live(ROUTES, "main"))
    assert placement.nodes_for(one) == {"edge-2"}
    assert placement.desired("edge-2", one).priority == sync_rule.ROUTES_PRIORITY
    assert placement.rules.topics_of("edge-2") == {"default/telemetry", "d/t"}
    assert placement.rules.topics_of("edge-1") == {"default/telemetry"}


def test_a_dropped_rule_takes_its_wishes_along(placement):
    """And says which nodes it concerned."""
    add_rule(placement, ALL_MAPS)
    put(placement, live(CONFIG_MAP, "a"))
    assert placement.rules.drop_rule("r") == {"edge-1", "edge-2"}
    assert placement.desired_objects("edge-1") == {}
    assert placement.rules.drop_rule("r") == frozenset()


V1BETA1 = {"apiVersion": "v1beta1", "kind": "ConfigMap"}


def test_a_version_that_is_not_served_concerns_its_own_entry(placement):
    """The kind is watched at the first version that is; the other entry selects nothing."""
    add_rule(placement, V1BETA1, name="a")
    add_rule(placement, {**ALL_MAPS, "namespaces": ["shop"]}, name="b")
    kind = CONFIG_MAP.group_kind
    assert placement.rules.kinds() == {kind: ("v1beta1", "v1")}
    assert placement.rules.set_served(kind, {"v1beta1": "no such thing", "v1": ""}) == {"edge-1", "edge-2"}
    assert placement.rules.set_served(kind, {"v1beta1": "no such thing", "v1": ""}) == frozenset()
    shop, ship = live(CONFIG_MAP, "a"), live(CONFIG_MAP, "a", uid="2", namespace="ship")
    put(placement, shop, ship)
    assert placement.desired_objects("edge-1") == {shop.key: shop}
    assert placement.nodes_for(ship) == set() and placement.desired("edge-1", ship) is None
    assert not placement.rules.is_unserved(kind)
    placement.rules.set_served(kind, {"v1beta1": "", "v1": ""})
    assert len(placement.desired_objects("edge-1")) == 2


def test_a_new_rule_at_another_version_selects_nothing_before_discovery_has_answered(placement):
    """Otherwise it would place what it may never place."""
    add_rule(placement, {**ALL_MAPS, "namespaces": ["shop"]}, name="b")
    placement.rules.set_served(CONFIG_MAP.group_kind, {"v1": ""})
    add_rule(placement, V1BETA1, name="a")
    put(placement, live(CONFIG_MAP, "a", namespace="ship"))
    assert placement.desired_objects("edge-1") == {}
