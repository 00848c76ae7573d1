"""What the status of SyncRules says."""

from typing import Any

import pytest
from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.listed import INPUTS
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.settings import NodeDelivery
from fairlead_hub.status import sync_rule_status


@pytest.fixture
def placement():
    made = Placement(ObjectCache(), NodeDelivery())
    for name in ("edge-1", "edge-2"):
        made.rules.set_node(name, {})
    made.listed.inputs.update(INPUTS)
    made.rules.set_rule(
        sync_rule.rule({"metadata": {"name": "r"}, "spec": {"resources": [{"apiVersion": "v1", "kind": "ConfigMap"}]}})
    )
    return made


def status_of(placement: Placement, *given: Any) -> dict[str, Any]:
    """Of a rule that is known."""
    found = sync_rule_status.of_rule(placement, *given)
    assert found is not None
    return found


def conditions(found):
    return {each["type"]: each for each in found["conditions"]}


def test_a_rule_learns_how_much_it_matches(placement):
    """Nodes and objects, and whether its kinds are listed yet."""
    placement.object_cache.put(live(CONFIG_MAP, "a"))
    found = status_of(placement, "r", {}, 1, "t")
    assert (found["matchedNodes"], found["matchedObjects"]) == (2, 1)
    assert conditions(found)["Listed"]["status"] == "False"
    placement.listed.kinds.add(CONFIG_MAP.group_kind)
    assert conditions(status_of(placement, "r", {}, 1, "t"))["Listed"]["status"] == "True"


def test_a_rule_that_selects_no_node_says_so(placement):
    """As soon as Nodes are listed, and unless it cannot be read: then that is not known."""
    assert status_of(placement, "r", {}, 1, "t")["message"] == ""
    spec = {"resources": [{"apiVersion": "v1", "kind": "ConfigMap"}], "nodeSelector": {"matchLabels": {"site": "x"}}}
    placement.rules.set_rule(sync_rule.rule({"metadata": {"name": "r"}, "spec": spec}))
    found = status_of(placement, "r", {}, 1, "t")
    assert found["message"].startswith("selects no node: compare nodeSelector with kubectl get nodes -l node-role")
    assert sync_rule_status.trouble("SyncRule", "r", found) == {
        "kind": "SyncRule",
        "name": "r",
        "reason": found["message"],
    }
    placement.listed.inputs.discard("nodes")
    assert status_of(placement, "r", {}, 1, "t")["message"] == ""


def test_a_rule_that_selects_no_object_says_so(placement):
    """As soon as its kinds are listed, in status and doctor too."""
    assert status_of(placement, "r", {}, 1, "t")["message"] == ""
    placement.listed.kinds.add(CONFIG_MAP.group_kind)
    found = status_of(placement, "r", {}, 1, "t")
    assert found["message"] == sync_rule_status.no_object() and found["message"].startswith("selects no object: comp")
    trouble = sync_rule_status.trouble("SyncRule", "r", found)
    assert trouble is not None and trouble["reason"] == found["message"]
    placement.rules.matches.object_changed([], ["r"])
    assert status_of(placement, "r", {}, 1, "t")["message"] == ""


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({}, None),
        ({"message": "warnings: odd", "matchedNodes": 2}, None),
        (
            {"conditions": [{"type": "Warned", "status": "True", "message": "a: odd [n]"}]},
            "accepted with warnings: a: odd [n]",
        ),
        ({"conditions": [{"type": "Warned", "status": "False", "message": ""}]}, None),
        ({"message": sync_rule_status.no_object()}, sync_rule_status.no_object()),
        (
            {
                "failingNodes": [
                    {"node": "m", "errors": [{"route": "b", "message": "unknown"}, {"route": "c", "message": "bad"}]},
                    {"node": "n", "errors": [{"route": "b", "message": "unknown"}]},
                    {"node": "o", "state": "Lagging", "message": "it is away"},
                ]
            },
            "not in force everywhere: b: unknown [m]; and 2 more; see fairlead routes --by-node",
        ),
        ({"unlistedKinds": ["A: 403", "B: 404"], "message": "A: 403; B: 404"}, "A: 403; B: 404"),
        ({"failingNodes": [{"node": "n"}], "message": "b: unknown [n]"}, "not in force everywhere: b: unknown [n]"),
        ({"failingNodes": [{"node": "n"}]}, "not in force everywhere: n"),
        (
            {"message": "selects no node: …; A: 404", "unlistedKinds": ["A: 404"]},
            f"{sync_rule_status.no_node(0)}; A: 404",
        ),
    ],
)
def test_what_of_a_status_is_trouble(status, reason):
    """The same with a hub and without."""
    found = sync_rule_status.trouble("SyncRule", "r", status)
    assert (found and found["reason"]) == reason


def test_a_kind_that_cannot_be_listed_is_reported(placement):
    """With the reason, as a condition."""
    placement.listed.frozen[CONFIG_MAP.group_kind] = "403 Forbidden"
    found = status_of(placement, "r", {}, 1, "t")
    assert found["unlistedKinds"] == ["ConfigMap: 403 Forbidden"]
    assert conditions(found)["Listed"]["reason"] == "Unlistable"


def unreadable(name, **status):
    return sync_rule.unreadable(
        {"metadata": {"name": name, "generation": 3}, "spec": {}, "status": {"observedGeneration": 3, **status}},
        "spec: why",
    )


def test_a_broken_rule_says_why_and_what_it_does_meanwhile(placement):
    """The field and the reason reach the one who wrote it; also in the one sentence of the column."""
    placement.rules.break_rule(unreadable("bad"))
    found = status_of(placement, "bad", {}, 1, "t")
    accepted = conditions(found)["Accepted"]
    assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
    assert accepted["message"] == found["message"] == "spec: why; it selects nothing until it is fixed"
    assert found["lastReadable"] is None
    assert sync_rule_status.of_rule(placement, "unknown", {}, 1, "t") is None


def test_the_form_that_is_in_force_is_written_down(placement):
    """A hub that starts anew must know what a rule selected before it became unreadable."""
    form = status_of(placement, "r", {}, 1, "t")["lastReadable"]
    assert form == {"generation": 0, "spec": placement.rules.readable["r"].form}
    placement.rules.break_rule(unreadable("r"))
    found = status_of(placement, "r", {"lastReadable": {"generation": 7, "spec": "{}"}}, 2, "t")
    assert found["lastReadable"] == form and found["matchedNodes"] == 2
    assert conditions(found)["Accepted"]["reason"] == sync_rule.IN_FORCE
    assert "last readable form (generation 0) stays in force" in found["message"]


def test_a_form_this_hub_cannot_read_is_left_as_it_stands(placement):
    """A newer hub wrote it; and that something unknown was in force is not forgotten."""
    kept = {"generation": 3, "spec": '{"resources":7}'}
    placement.rules.break_rule(unreadable("bad", lastReadable=kept))
    assert status_of(placement, "bad", {"lastReadable": kept}, 4, "t")["lastReadable"] == kept
    found = status_of(placement, "bad", {}, 4, "t")
    assert found["lastReadable"] == {"generation": 0, "spec": ""}
    assert conditions(found)["Accepted"]["reason"] == sync_rule.MAY_BE_IN_FORCE


def test_a_form_between_the_known_ones_is_kept_in_mind(placement):
    """No hub saw what the rule said between: the next hub must know that, too (seed 549799)."""
    last = placement.rules.readable["r"]
    placement.rules.drop_rule("r")
    placement.rules.break_rule(unreadable("r", lastReadable={"generation": 1, "spec": last.form}, observedGeneration=1))
    found = status_of(placement, "r", {}, 3, "t")
    assert conditions(found)["Accepted"]["reason"] == sync_rule.MAY_BE_IN_FORCE
    assert "nothing that it or the present text selects is deleted" in found["message"]
    again = {"lastReadable": found["lastReadable"], "observedGeneration": 3, "conditions": found["conditions"]}
    placement.rules.drop_rule("r")
    placement.rules.break_rule(unreadable("r", **again))
    assert placement.rules.reaches["r"] is not None and placement.rules.readable["r"].form == last.form


def test_a_version_that_is_not_served_is_reported(placement):
    """Although the kind is listed at another; it selects nothing."""
    body = {"metadata": {"name": "odd"}, "spec": {"resources": [{"apiVersion": "v2", "kind": "ConfigMap"}]}}
    placement.rules.set_rule(sync_rule.rule(body))
    placement.rules.set_served(CONFIG_MAP.group_kind, {"v1": "", "v2": "404 no such thing"})
    placement.listed.kinds.add(CONFIG_MAP.group_kind)
    placement.object_cache.put(live(CONFIG_MAP, "a"))
    found = status_of(placement, "odd", {}, 1, "t")
    assert found["unlistedKinds"] == ["v2 ConfigMap: 404 no such thing"] and found["matchedObjects"] == 0
    assert conditions(found)["Listed"]["reason"] == "Unlistable" and "404" in found["message"]
    assert conditions(status_of(placement, "r", {}, 1, "t"))["Listed"]["status"] == "True"


@pytest.mark.parametrize("status", [{}, {"conditions": 7}, {"conditions": [7]}])
def test_a_status_written_by_hand_is_replaced(placement, status):
    """Whatever stands there."""
    assert status_of(placement, "r", status, 1, "t")["conditions"]
