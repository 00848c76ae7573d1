"""What EdgeRoutes are told in their status."""

import pytest

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.settings import Delivery
from fairlead_hub.status import edge_routes_status
from fairlead_hub.status.edge_routes_status import Heard
from fairlead_wire import message


@pytest.fixture
def placement():
    made = Placement(ObjectCache(), Delivery())
    for name in ("edge-1", "edge-2"):
        made.set_node(name, {})
    table(made)
    return made


def table(placement, generation=1):
    metadata = {"name": "main", "uid": "u", "generation": generation}
    placement.routes["main"] = sync_rule.routes({"metadata": metadata, "spec": {"routes": {"a": "x", "b": "y"}}})


def error(route="b", text="unknown function", column=5):
    return message.RouteError(route=route, message=text, line=1, column=column, end_column=column + 4)


def said(*errors, accepted=("a",), warnings=()):
    status = message.RoutesStatus(
        uid="u", resource_version="7", accepted=list(accepted), errors=list(errors), warnings=list(warnings)
    )
    return Heard(said=status)


AWAY = Heard(lag="the node is away", away=True)


def of(placement, before=None, **heard):
    told = {name.replace("_", "-"): value for name, value in heard.items()}
    return edge_routes_status.of_routes(placement, lambda node: told.get(node, AWAY), "main", before or {}, 1, "t")


def conditions(found):
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found["conditions"]}


def test_each_node_is_heard(placement):
    """With the position of each error at each node, and in the one sentence of the column."""
    found = of(placement, edge_1=said(accepted=("a", "b")), edge_2=said(error()))
    assert (found["matchedNodes"], found["acceptedNodes"], found["laggingNodes"]) == (2, 1, 0)
    assert found["nodes"][1]["errors"] == [
        {"route": "b", "message": "unknown function", "line": 1, "column": 5, "endColumn": 9}
    ]
    assert found["nodes"][1]["acceptedRoutes"] == ["a"], "the good one runs"
    assert conditions(found)["Accepted"][:2] == ("False", "Errors")
    assert found["message"] == "b: unknown function (line 1, column 5) [edge-2]"
    assert conditions(found)["Current"][0] == "True"


def test_the_same_mistake_is_named_once(placement):
    """With the nodes that found it."""
    found = of(placement, edge_1=said(error()), edge_2=said(error()))
    assert conditions(found)["Accepted"][2].endswith("[edge-1, edge-2]")


def test_warnings_are_told_and_refuse_nothing(placement):
    """Where people look."""
    odd = message.RouteError(route="a", message="timeToLive: unknown key", line=1, column=1, end_column=1)
    found = of(placement, edge_1=said(warnings=[odd]), edge_2=said())
    assert conditions(found)["Accepted"][0] == "True" and found["acceptedNodes"] == 2
    assert conditions(found)["Warned"] == ("True", "Warnings", "a: timeToLive: unknown key [edge-1]")
    assert found["message"] == "warnings: a: timeToLive: unknown key [edge-1]"
    assert found["nodes"][0]["warnings"][0]["route"] == "a"


def test_who_lags_is_named_with_the_reason(placement):
    """From the first version on; silence is no consent."""
    found = of(placement, edge_1=said(), edge_2=Heard(lag="version 8 is not delivered: on its way"))
    assert (found["acceptedNodes"], found["laggingNodes"]) == (1, 1)
    [_, row] = found["nodes"]
    assert (row["node"], row["lagging"], row["accepted"]) == ("edge-2", True, False)
    assert conditions(found)["Current"] == ("False", "Lagging", "edge-2: version 8 is not delivered: on its way")
    assert found["message"].startswith("not current: edge-2")


def test_a_node_that_is_away_keeps_its_row_while_nothing_changed(placement):
    """What it said last is true still; after a change it lags, and its old errors are told of until it is back."""
    before = of(placement, edge_1=said(), edge_2=said(error()))
    assert of(placement, before)["nodes"] == before["nodes"]
    assert of(placement, before)["laggingNodes"] == 0
    table(placement, generation=2)
    after = of(placement, before, edge_1=said())
    assert (after["laggingNodes"], after["acceptedNodes"]) == (1, 1)
    assert after["nodes"][1]["lagging"] and after["nodes"][1]["errors"] == before["nodes"][1]["errors"]
    assert "edge-2: the node is away" in after["message"]


def test_nodes_that_never_said_anything_are_counted_and_a_few_listed(placement):
    """A thousand nodes that are away fill no object."""
    for number in range(200):
        placement.set_node(f"far-{number}", {})
    found = of(placement)
    assert found["laggingNodes"] == 202
    assert len(found["nodes"]) == edge_routes_status.LAGGING_MAX
    assert found["message"].endswith("and 197 more") and len(found["message"]) < 1024


def test_one_node_cannot_fill_the_status(placement):
    """It names the routes there are, in a few words; what else it says is left out."""
    errors = [message.RouteError(route="z" * 9000, message="m" * 9000, line=1, column=1, end_column=2)] * 99
    names = ["a", *(f"made-up-{n}" for n in range(9000))]
    found = of(placement, edge_1=said(*errors, accepted=names, warnings=errors))
    [row, _] = found["nodes"]
    assert row["acceptedRoutes"] == ["a"]
    assert len(row["errors"]) == len(row["warnings"]) == edge_routes_status.ERRORS_MAX
    assert len(str(row)) < 2 * edge_routes_status.ERRORS_MAX * 900
    assert len(found["message"]) <= 1024 and len(conditions(found)["Accepted"][2]) < 10_000


def test_an_object_the_hub_cannot_read_is_told(placement):
    """It is sent to nobody."""
    del placement.routes["main"]
    placement.broken["edgeroutes/main"] = "spec.nodeSelector: unknown field site"
    found = of(placement)
    assert conditions(found)["Accepted"][:2] == ("False", "Invalid")
    assert "unknown field site; it is sent to no node" in found["message"]
    assert found["matchedNodes"] == 0
    assert edge_routes_status.of_routes(placement, lambda node: AWAY, "unknown", {}, 1, "t") is None


@pytest.mark.parametrize("rows", [7, [7], [{"node": "edge-1"}], [{"node": "edge-1", "errors": None}]])
def test_a_status_written_by_hand_ends_nothing(placement, rows):
    """Whatever stands there."""
    assert of(placement, {"nodes": rows, "conditions": 3})["laggingNodes"] == 2
