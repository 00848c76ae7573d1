"""The status of an EdgeRoutes object: counts, and the first nodes where not all of it runs."""

import json

import pytest

from fairlead_hub.cluster.listed import INPUTS
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.sync_rule import SpecCheck
from fairlead_hub.settings import NodeDelivery
from fairlead_hub.status import edge_routes_status
from fairlead_hub.status.edge_routes_controller import RoutesOutcomes
from fairlead_hub.status.node_routes import ACCEPTED, REFUSED, WARNED, RouteOutcome


@pytest.fixture
def placement():
    made = Placement(ObjectCache(), NodeDelivery())
    made.listed.inputs.update(INPUTS)
    return made


def error(route="b", text="unknown function", column=5):
    return {"route": route, "message": text, "line": 1, "column": column, "endColumn": column + 4}


def outcomes(rows=None, **of_node):
    made = RoutesOutcomes(lambda node: (rows or {}).get(node, {}))
    for node, outcome in of_node.items():
        made.put(node.replace("_", "-"), outcome)
    return made


def of(placement, found, before=None):
    return edge_routes_status.of_routes(placement, found, "main", before or {}, 1, "t")


def conditions(found):
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found["conditions"]}


def test_each_node_is_counted(placement):
    """And the errors of those that refuse stand there with their positions, and in the one sentence of the column."""
    found = of(placement, outcomes({"edge-2": {"errors": [error()]}}, edge_1=ACCEPTED, edge_2=REFUSED))
    assert [found[f"{count}Nodes"] for count in ("matched", "accepted", "refused", "lagging")] == [2, 1, 1, 0]
    assert found["failingNodes"] == [{"node": "edge-2", "state": "Refused", "errors": [error()]}]
    assert conditions(found)["Accepted"][:2] == ("False", "Errors")
    assert found["message"] == "b: unknown function (line 1, column 5) [edge-2]"
    assert conditions(found)["Current"] == ("True", "Current", edge_routes_status.ALL_REPORTED)


def test_a_valid_object_says_where_its_refused_routes_are(placement):
    """Valid is about the definition alone, and stands beside an Accepted that is False."""
    check = SpecCheck(collection="edgeroutes", name="main", uid="u", generation=1, mistakes="")
    refused = outcomes({"edge-2": {"errors": [error()]}}, edge_1=ACCEPTED, edge_2=REFUSED)
    found = edge_routes_status.of_routes(placement, refused, "main", {}, 1, "t", check)
    said = "the object matches its definition; whether its routes are in force: condition Accepted"
    assert conditions(found)["Valid"] == ("True", "Valid", said)


def test_who_selects_no_node_says_so(placement):
    """Nothing else is wrong with it, so its conditions stay."""
    found = of(placement, outcomes())
    assert found["message"].startswith("selects no node: ") and conditions(found)["Accepted"][0] == "True"


def test_the_same_mistake_is_named_once(placement):
    """With the nodes that found it."""
    rows = {node: {"errors": [error()]} for node in ("edge-1", "edge-2")}
    found = of(placement, outcomes(rows, edge_1=REFUSED, edge_2=REFUSED))
    assert conditions(found)["Accepted"][2].endswith("[edge-1, edge-2]")


def test_warnings_are_reported_and_refuse_nothing(placement):
    """Where people look."""
    odd = {"route": "a", "message": "timeToLive: unknown key", "line": 1, "column": 1, "endColumn": 1}
    found = of(placement, outcomes({"edge-1": {"warnings": [odd]}}, edge_1=WARNED, edge_2=ACCEPTED))
    assert conditions(found)["Accepted"][0] == "True" and found["acceptedNodes"] == 2
    assert conditions(found)["Warned"] == ("True", "Warnings", "a: timeToLive: unknown key [edge-1]")
    assert found["message"] == "warnings: a: timeToLive: unknown key [edge-1]"
    assert found["failingNodes"] == []


def test_who_lags_is_named_with_the_reason(placement):
    """From the first version on; silence is no consent."""
    why = "version 8 is not delivered: on its way"
    found = of(placement, outcomes(edge_1=ACCEPTED, edge_2=RouteOutcome("Lagging", why)))
    assert (found["acceptedNodes"], found["laggingNodes"]) == (1, 1)
    assert found["failingNodes"] == [{"node": "edge-2", "state": "Lagging", "message": why}]
    assert conditions(found)["Current"] == ("False", "Lagging", f"edge-2: {why}")
    assert found["message"] == f"not current: edge-2: {why}"


@pytest.mark.parametrize("state", ["Refused", "Lagging"])
def test_ten_thousand_nodes_that_fail_fill_no_object(placement, state):
    """It is one object, and may have 1.5 MiB: the first fifty nodes stand there, the others are counted."""
    long = [{**error(text="m" * 500), "route": f"{'r' * 240}-{n}"} for n in range(32)]
    nodes = {f"edge-{n:05}": RouteOutcome(state, "w" * 500) for n in range(10_000)}
    found = of(placement, outcomes({node: {"errors": long} for node in nodes}, **nodes))
    assert found[f"{state.lower()}Nodes"] == found["matchedNodes"] == 10_000
    assert [each["node"] for each in found["failingNodes"]] == sorted(nodes)[:50]
    assert len(json.dumps(found)) < 256 * 1024
    assert len(found["message"]) <= 1024


def test_who_refuses_is_listed_before_who_lags(placement):
    """Fifty rows are for what a person has to mend."""
    late = {f"a-{n}": RouteOutcome("Lagging", "the node is away") for n in range(60)}
    found = of(placement, outcomes({"z": {"errors": [error()]}}, z=REFUSED, **late))
    assert found["failingNodes"][0]["node"] == "z" and len(found["failingNodes"]) == 50


def test_an_object_that_cannot_be_read_says_so(placement):
    """Its nodes are not known."""
    placement.rules.broken["edgeroutes/main"] = "spec.nodeSelector: why"
    found = of(placement, None)
    assert conditions(found)["Accepted"][:2] == ("False", "Invalid") and "why" in found["message"]
    assert (found["matchedNodes"], found["failingNodes"]) == (0, [])


def test_nothing_is_counted_before_nodes_are_listed(placement):
    """A hub that starts would write counts that are too low."""
    placement.listed.inputs.discard("nodes")
    assert of(placement, outcomes(edge_1=ACCEPTED)) is None


def test_an_object_that_is_not_known_is_not_judged(placement):
    """It was deleted meanwhile."""
    assert of(placement, None) is None


@pytest.mark.parametrize("conditions", [3, [3], [{"type": "Accepted", "lastTransitionTime": 3}]])
def test_a_status_that_was_edited_is_written_anew(placement, conditions):
    """Whatever stands there."""
    assert of(placement, outcomes(edge_1=ACCEPTED), {"conditions": conditions})["acceptedNodes"] == 1
