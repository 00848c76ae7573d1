"""What SyncRules and EdgeRoutes are told in their status."""

import pytest
from tests.support.live import CONFIG_MAP, live

from fairlead_hub import rules, verdicts
from fairlead_hub.catalog import Catalog
from fairlead_hub.placement import INPUTS, Placement
from fairlead_hub.settings import Delivery
from fairlead_wire import message


@pytest.fixture
def placement():
    made = Placement(Catalog(), Delivery())
    for name in ("edge-1", "edge-2"):
        made.set_node(name, {})
    made.inputs_synced.update(INPUTS)
    made.set_rule(
        rules.rule({"metadata": {"name": "r"}, "spec": {"resources": [{"apiVersion": "v1", "kind": "ConfigMap"}]}})
    )
    made.routes["main"] = rules.routes({"metadata": {"name": "main", "uid": "u"}, "spec": {"routes": {"a": "x"}}})
    return made


def conditions(found):
    return {each["type"]: each for each in found["conditions"]}


def test_a_rule_learns_how_much_it_matches(placement):
    """Nodes and objects, and whether its kinds are listed yet."""
    placement.catalog.put(live(CONFIG_MAP, "a"))
    found = verdicts.of_rule(placement, "r", [], 1, "t")
    assert (found["matchedNodes"], found["matchedObjects"]) == (2, 1)
    assert conditions(found)["Listed"]["status"] == "False"
    placement.synced.add(CONFIG_MAP.group_kind)
    assert conditions(verdicts.of_rule(placement, "r", [], 1, "t"))["Listed"]["status"] == "True"


def test_a_kind_that_cannot_be_listed_is_told(placement):
    """With the reason, as a condition."""
    placement.frozen[CONFIG_MAP.group_kind] = "403 Forbidden"
    found = verdicts.of_rule(placement, "r", [], 1, "t")
    assert found["unlistedKinds"] == ["ConfigMap: 403 Forbidden"]
    assert conditions(found)["Listed"]["reason"] == "Unlistable"


def test_one_node_cannot_fill_the_status_of_routes(placement):
    """It names the routes there are, in a few words; what else it says is left out."""
    errors = [message.RouteError(route="z" * 9000, message="m" * 9000, line=1, column=1, end_column=2)] * 99
    said = message.RoutesStatus(
        uid="u", resource_version="1" * 9000, accepted=["a", *(f"made-up-{n}" for n in range(9000))], errors=errors
    )
    edge = message.EdgeStatus(held=0, routes={"main": said})
    [row] = verdicts.of_routes(placement, {"edge-1": edge}, "main", [], 1, "t")["nodes"]
    assert row["acceptedRoutes"] == ["a"]
    assert len(str(row)) < verdicts.ERRORS_MAX * 900


def test_a_broken_rule_is_told_why(placement):
    """The field and the reason reach the one who wrote it."""
    placement.broken["syncrules/bad"] = "spec.resources: at least one entry is needed"
    accepted = conditions(verdicts.of_rule(placement, "bad", [], 1, "t"))["Accepted"]
    assert (accepted["status"], accepted["message"]) == ("False", "spec.resources: at least one entry is needed")
    assert verdicts.of_rule(placement, "unknown", [], 1, "t") is None


def report(*errors):
    return message.EdgeStatus(
        held=1,
        routes={"main": message.RoutesStatus(uid="u", resource_version="7", accepted=["a"], errors=list(errors))},
    )


def test_routes_learn_which_nodes_accepted_them(placement):
    """With the position of each error at each node."""
    error = message.RouteError(route="b", message="unknown function", line=1, column=5, end_column=9)
    found = verdicts.of_routes(placement, {"edge-1": report(), "edge-2": report(error)}, "main", [], 1, "t")
    assert (found["matchedNodes"], found["acceptedNodes"]) == (2, 1)
    assert found["nodes"][1]["errors"] == [
        {"route": "b", "message": "unknown function", "line": 1, "column": 5, "endColumn": 9}
    ]
    assert conditions(found)["Accepted"]["status"] == "False"
    assert "edge-2" in conditions(found)["Accepted"]["message"]


def test_a_node_that_has_not_reported_is_not_counted(placement):
    """Silence is no consent."""
    found = verdicts.of_routes(placement, {"edge-1": report()}, "main", [], 1, "t")
    assert [node["node"] for node in found["nodes"]] == ["edge-1"]
    assert found["acceptedNodes"] == 1
    assert verdicts.of_routes(placement, {}, "unknown", [], 1, "t") is None


def test_the_list_of_errors_is_bounded(placement):
    """One edge cannot fill an object in etcd."""
    errors = [message.RouteError(route=f"r{n}", message="m", line=1, column=1, end_column=2) for n in range(1000)]
    found = verdicts.of_routes(placement, {"edge-1": report(*errors)}, "main", [], 1, "t")
    assert len(found["nodes"][0]["errors"]) == verdicts.ERRORS_MAX
