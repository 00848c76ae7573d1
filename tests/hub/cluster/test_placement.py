"""Which node should hold which object, and when nothing may be taken away."""

import pytest
from tests.support.live import CONFIG_MAP, POD, ROUTES, SECRET, live

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import INPUTS, Placement
from fairlead_hub.settings import Delivery


@pytest.fixture
def placement():
    made = Placement(ObjectCache(), Delivery())
    made.set_node("edge-1", {"role": "shop"})
    made.set_node("edge-2", {"role": "ship"})
    made.inputs_synced.update(INPUTS)
    return made


def add_rule(placement, *resources, name="r", **spec):
    placement.set_rule(sync_rule.rule({"metadata": {"name": name}, "spec": {"resources": list(resources), **spec}}))


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
    assert placement.set_node("edge-2", {"role": "shop"})
    assert placement.nodes_for(one) == {"edge-1", "edge-2"}
    assert placement.nodes_for(one, {"edge-2": None}) == {"edge-2"}
    assert placement.nodes_for(one, dict.fromkeys(("edge-1", "edge-3", "edge-4"))) == {"edge-1"}
    assert not placement.set_node("edge-2", {"role": "shop"}), "a heartbeat is no change"
    assert placement.drop_node("edge-1")
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
    placement.routes["main"] = sync_rule.routes(body)
    one = put(placement, live(ROUTES, "main"))
    assert placement.nodes_for(one) == {"edge-2"}
    assert placement.desired("edge-2", one).priority == sync_rule.ROUTES_PRIORITY
    assert placement.topics_of("edge-2") == {"default/telemetry", "d/t"}
    assert placement.topics_of("edge-1") == {"default/telemetry"}


def test_a_dropped_rule_takes_its_wishes_along(placement):
    """And says which nodes it concerned."""
    add_rule(placement, ALL_MAPS)
    put(placement, live(CONFIG_MAP, "a"))
    assert placement.drop_rule("r") == {"edge-1", "edge-2"}
    assert placement.desired_objects("edge-1") == {}
    assert placement.drop_rule("r") == frozenset()


def read(name, generation=1, uid="u", status=None, **spec):
    body = {"metadata": {"name": name, "uid": uid, "generation": generation}, "spec": spec, "status": status or {}}
    try:
        return sync_rule.rule(body)
    except ValueError as error:
        return sync_rule.unreadable(body, str(error))


def test_a_rule_that_cannot_be_read_stays_in_force_as_it_was(placement):
    """Its last form wishes on, for old objects and new ones."""
    placement.set_rule(read("r", resources=[ALL_MAPS], nodeSelector={"matchLabels": {"role": "shop"}}))
    one = put(placement, live(CONFIG_MAP, "a"))
    assert placement.break_rule(read("r", 2, resources=[])) == {"edge-1"}
    assert "spec.resources" in placement.broken["syncrules/r"]
    assert placement.nodes_for(one) == {"edge-1"} == placement.nodes_for(put(placement, live(CONFIG_MAP, "b")))
    assert placement.unreadable_for("edge-1") == ["r"] and placement.unreadable_for("edge-2") == []
    assert placement.set_rule(read("r", 3, resources=[ALL_MAPS])) == {"edge-1", "edge-2"}
    assert placement.broken == {} and placement.unreadable_for("edge-1") == []


def test_the_last_readable_form_is_taken_from_the_rules_own_status(placement):
    """A hub that starts anew knows no more than what stands in the API."""
    kept = {"generation": 3, "spec": read("r", resources=[ALL_MAPS]).form}
    found = read("r", 4, resources=[], status={"observedGeneration": 3, "lastReadable": kept})
    assert placement.break_rule(found) == {"edge-1", "edge-2"}
    assert placement.nodes_for(put(placement, live(CONFIG_MAP, "a"))) == {"edge-1", "edge-2"}
    assert placement.rules["r"].generation == 3


def test_a_namesake_inherits_nothing(placement):
    """The rule was deleted and made anew, unreadable, while the watch was broken."""
    placement.set_rule(read("r", resources=[ALL_MAPS]))
    assert placement.break_rule(read("r", uid="other", resources=[])) == {"edge-1", "edge-2"}
    assert placement.nodes_for(put(placement, live(CONFIG_MAP, "a"))) == set()
    assert placement.drop_rule("r") == frozenset() and placement.broken == {}


V1BETA1 = {"apiVersion": "v1beta1", "kind": "ConfigMap"}


def test_a_version_that_is_not_served_concerns_its_own_entry(placement):
    """The kind is watched at the first version that is; the other entry selects nothing."""
    add_rule(placement, V1BETA1, name="a")
    add_rule(placement, {**ALL_MAPS, "namespaces": ["shop"]}, name="b")
    kind = CONFIG_MAP.group_kind
    assert placement.kinds() == {kind: ("v1beta1", "v1")}
    assert placement.set_served(kind, {"v1beta1": "no such thing", "v1": ""}) == {"edge-1", "edge-2"}
    assert placement.set_served(kind, {"v1beta1": "no such thing", "v1": ""}) == frozenset()
    shop, ship = live(CONFIG_MAP, "a"), live(CONFIG_MAP, "a", uid="2", namespace="ship")
    put(placement, shop, ship)
    assert placement.desired_objects("edge-1") == {shop.key: shop}
    assert placement.nodes_for(ship) == set() and placement.desired("edge-1", ship) is None
    assert not placement.is_unserved(kind)
    placement.set_served(kind, {"v1beta1": "", "v1": ""})
    assert len(placement.desired_objects("edge-1")) == 2


def test_a_new_rule_at_another_version_selects_nothing_before_discovery_has_answered(placement):
    """Otherwise it would place what it may never place."""
    add_rule(placement, {**ALL_MAPS, "namespaces": ["shop"]}, name="b")
    placement.set_served(CONFIG_MAP.group_kind, {"v1": ""})
    add_rule(placement, V1BETA1, name="a")
    put(placement, live(CONFIG_MAP, "a", namespace="ship"))
    assert placement.desired_objects("edge-1") == {}


def test_a_kind_that_is_served_at_no_version_keeps_nobody_waiting(placement):
    """It is told, and what is there stays (removals)."""
    add_rule(placement, V1BETA1)
    assert "ConfigMap is not listed yet" in placement.not_synced("edge-1")
    placement.set_served(CONFIG_MAP.group_kind, {"v1beta1": "no such thing"})
    assert placement.not_synced("edge-1") == "" and placement.is_unserved(CONFIG_MAP.group_kind)
    placement.drop_rule("r")
    assert placement.unserved == {}


def test_thousands_of_rules_are_indexed_once_not_once_for_each(monkeypatch):
    """A list brings them one by one; a hub that indexed all for each did not come up within minutes."""
    placement = Placement(ObjectCache(), Delivery())
    asked: list[str] = []
    is_served = Placement._is_served

    def counted(self, entry):
        asked.append(entry.kind)
        return is_served(self, entry)

    monkeypatch.setattr(Placement, "_is_served", counted)
    for number in range(2000):
        spec = {"resources": [{"apiVersion": "v1", "kind": "ConfigMap"}]}
        placement.set_rule(sync_rule.rule({"metadata": {"name": f"r-{number}"}, "spec": spec}))
    assert len(placement.named(("", "ConfigMap"))) == 2000
    assert placement.in_force(placement.rules["r-0"].entries[0])
    assert len(asked) <= 3 * 2000
