"""Whether an object may be removed from a node, and how narrowly doubt is drawn."""

import pytest
from tests.support.hubs.live import CONFIG_MAP, POD, ROUTES, SECRET, live

from fairlead_hub.cluster import deletion_blocked, sync_rule
from fairlead_hub.cluster.content import EDGE_ROUTES, ServedKind
from fairlead_hub.cluster.listed import INPUTS
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.settings import NodeDelivery

MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
REFERENCED = {"apiVersion": "v1", "kind": "Secret", "select": "referenced"}
SHOPS = {"matchLabels": {"role": "shop"}}


@pytest.fixture
def placement():
    made = Placement(ObjectCache(), NodeDelivery())
    made.rules.set_node("edge-1", {"role": "shop"})
    made.rules.set_node("edge-2", {"role": "ship"})
    made.listed.inputs.update(INPUTS)
    made.listed.kinds.update(kind.group_kind for kind in (CONFIG_MAP, POD, SECRET, ROUTES))
    return made


def body(name, *resources, generation=1, status=None, **spec):
    metadata = {"name": name, "uid": f"uid-{name}", "generation": generation}
    return {"metadata": metadata, "spec": {"resources": list(resources), **spec}, "status": status or {}}


def add(placement, *resources, name="r", **spec):
    placement.rules.set_rule(sync_rule.rule(body(name, *resources, **spec)))


def broken(placement, name="r", *resources, **fields):
    found = body(name, *resources, **fields)
    with pytest.raises(ValueError) as error:
        sync_rule.rule(found)
    placement.rules.break_rule(sync_rule.unreadable(found, str(error.value)))


def blocked(placement, one, node="edge-1", *, known=True, there=False):
    kind = one.kind.group_kind if known else None
    return deletion_blocked.blocked(placement, node, one.resource, kind, one if there else None)


ONE = live(CONFIG_MAP, "a")
SECRET_ONE = live(SECRET, "s")


def test_what_is_certain_goes(placement):
    """Everything is listed, nothing selects it."""
    add(placement, MAPS)
    assert blocked(placement, ONE) == ""


def test_nothing_is_removed_before_everything_is_listed(placement):
    """A cache that is not synced proves nothing."""
    add(placement, MAPS)
    placement.listed.kinds.discard(CONFIG_MAP.group_kind)
    assert "ConfigMap is not listed yet" in blocked(placement, ONE)
    placement.listed.inputs.discard("syncrules")
    assert "syncrules" in blocked(placement, ONE)


def test_a_kind_that_cannot_be_listed_keeps_what_is_selected_by_it(placement):
    """403 or a CRD that is gone: other kinds go on, and nodes and namespaces no rule of the kind names."""
    add(placement, {**MAPS, "namespaces": ["shop"]}, {"apiVersion": "v1", "kind": "Secret"}, nodeSelector=SHOPS)
    placement.listed.kinds.discard(CONFIG_MAP.group_kind)
    placement.listed.frozen[CONFIG_MAP.group_kind] = "403 Forbidden"
    assert placement.listed.not_synced("edge-1") == ""
    assert "403" in blocked(placement, ONE)
    assert blocked(placement, SECRET_ONE) == ""
    assert blocked(placement, ONE, "edge-2") == ""
    assert blocked(placement, live(CONFIG_MAP, "a", namespace="ship")) == ""


def test_references_are_uncertain_while_pods_cannot_be_listed(placement):
    """Without the Pods it is not known what is referenced."""
    add(placement, REFERENCED, MAPS)
    placement.listed.frozen[POD.group_kind] = "403 Forbidden"
    assert "Pod" in blocked(placement, SECRET_ONE)
    assert blocked(placement, ONE) == ""


def test_a_new_rule_that_cannot_be_read_keeps_nothing(placement):
    """It never selected anything, here or anywhere."""
    add(placement, MAPS)
    broken(placement, "bad")
    assert blocked(placement, ONE) == "" and placement.rules.unreadable_for("edge-1") == []
    assert deletion_blocked.consequence(placement, "bad") == "it selects nothing until it is fixed"


def test_a_rule_that_cannot_be_read_any_more_keeps_what_it_selects(placement):
    """What it covers, at its nodes; whatever else is there goes."""
    labelled = {**MAPS, "namespaces": ["shop"], "labelSelector": {"matchLabels": {"app": "till"}}}
    add(placement, labelled, {"apiVersion": "v1", "kind": "Pod", "select": "bound"}, name="r", nodeSelector=SHOPS)
    add(placement, MAPS, {"apiVersion": "v1", "kind": "Secret"}, name="good")
    broken(placement, "r", generation=2)
    assert "SyncRule r cannot be read: spec.resources" in blocked(placement, ONE)
    assert "SyncRule r" in blocked(placement, live(POD, "p"))
    assert blocked(placement, ONE, "edge-2") == ""
    assert blocked(placement, SECRET_ONE) == ""
    assert blocked(placement, live(CONFIG_MAP, "a", namespace="ship")) == ""
    # It is there still, or was when it was deleted here, and its labels say that the rule never covered it.
    assert blocked(placement, ONE, there=True) == ""
    placement.forget(ONE)
    assert blocked(placement, ONE) == ""
    placement.rules.gone.clear()
    add(placement, labelled, name="r")
    assert blocked(placement, ONE) == ""
    placement.forget(ONE)
    assert placement.rules.gone == {}, "nothing is remembered while every rule can be read"


def test_a_form_that_is_not_written_down_keeps_what_the_text_may_mean(placement):
    """An older hub accepted it, or two changes came while no hub looked: its kinds at the nodes it may have named."""
    accepted = {"observedGeneration": 1, "conditions": [{"type": "Accepted", "status": "True"}]}
    bad = {"minimum_delay": 9, "maximum_delay": 1}
    broken(placement, "old", MAPS, status=accepted, delivery=bad, nodeSelector=SHOPS)
    broken(placement, "unseen", REFERENCED, generation=2, delivery=bad, nodeSelector={"site": "x"})
    assert "SyncRule old" in blocked(placement, ONE) and blocked(placement, ONE, "edge-2") == ""
    assert "SyncRule unseen" in blocked(placement, SECRET_ONE, "edge-2")
    assert placement.desired_objects("edge-1") == {}
    assert "what it may have selected" in deletion_blocked.consequence(placement, "old")
    assert placement.rules.unreadable_for("edge-2") == ["unseen"]
    placement.rules.drop_rule("unseen")
    assert blocked(placement, SECRET_ONE, "edge-2") == ""


def test_a_version_that_is_not_served_keeps_what_came_at_it(placement):
    """And nothing that is held at another version."""
    older = ServedKind(group="shop.io", version="v1", kind="Till", plural="tills", namespaced=True)
    newer = ServedKind(group="shop.io", version="v2", kind="Till", plural="tills", namespaced=True)
    add(placement, {"apiVersion": "shop.io/v1", "kind": "Till"})
    placement.rules.set_served(("shop.io", "Till"), {"shop.io/v1": "no such thing"})
    assert "Till cannot be listed: no such thing" in blocked(placement, live(older, "t"))
    assert blocked(placement, live(newer, "t")) == ""
    assert blocked(placement, ONE) == ""


def test_a_kind_discovery_knows_no_more_is_known_by_its_group(placement):
    """Its definition is gone, so it is not known which kind the plural was; core kinds have well-known names."""
    add(placement, {"apiVersion": "shop.io/v1", "kind": "Till"}, MAPS)
    placement.rules.set_served(("shop.io", "Till"), {"shop.io/v1": "no such thing"})
    placement.listed.frozen[CONFIG_MAP.group_kind] = "403"
    odd = ServedKind(group="shop.io", version="v1", kind="Till", plural="tillen", namespaced=True)
    assert "no such thing" in blocked(placement, live(odd, "t"), known=False)
    assert "403" in blocked(placement, ONE, known=False)
    assert blocked(placement, SECRET_ONE, known=False) == ""


def test_routes_that_cannot_be_read_keep_themselves(placement):
    """Not one object else."""
    add(placement, MAPS)
    placement.rules.broken["edgeroutes/main"] = "spec.nodeSelector: unknown field site"
    assert "EdgeRoutes main cannot be read" in blocked(placement, live(ROUTES, "main", namespace=""))
    assert blocked(placement, live(ROUTES, "other", namespace="")) == ""
    assert blocked(placement, ONE) == ""
    placement.listed.frozen[EDGE_ROUTES] = "404"
    assert "404" in blocked(placement, live(ROUTES, "other", namespace=""))


def test_a_node_says_which_rules_concern_it(placement):
    """A few by name."""
    for number in range(deletion_blocked.LISTED_MAX + 2):
        add(placement, MAPS, name=f"r{number}", nodeSelector=SHOPS)
        broken(placement, f"r{number}", generation=2)
    assert deletion_blocked.unreadable_rules(placement, "edge-2") == ""
    said = deletion_blocked.unreadable_rules(placement, "edge-1")
    assert "SyncRule r0: spec.resources" in said and said.endswith("and 2 more")


@pytest.mark.parametrize("asked", ["till", "tills", "tills.shop.io"])
def test_a_plural_is_called_without_discovery(asked):
    """Kinds whose definition is gone keep their names."""
    assert deletion_blocked.is_called("tills", asked.partition(".")[0])
    assert deletion_blocked.is_called("policies", "policy") and deletion_blocked.is_called("boxes", "box")
    assert not deletion_blocked.is_called("tills", "stall")
