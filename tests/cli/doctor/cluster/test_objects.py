"""Rules, routes and nodes as they stand in the API."""

from __future__ import annotations

from typing import Any

from fairlead_cli.doctor.cluster.objects import SHOWN_MAX, judge_nodes, judge_written


def rule(name: str, accepted: str | None, **status: Any) -> dict[str, Any]:
    conditions = [] if accepted is None else [{"type": "Accepted", "status": accepted, "message": "priority: too high"}]
    return {"metadata": {"name": name}, "status": {"conditions": conditions, **status}}


def node(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"connected": True, **status}}


def test_rules() -> None:
    """Accepted, refused, not judged yet, with a kind that cannot be listed, failing at a node."""
    assert [each.level for each in judge_written("SyncRule", [])] == ["ok"]
    assert [each.level for each in judge_written("SyncRule", [rule("a", "True")])] == ["ok"]
    found = list(
        judge_written(
            "SyncRule",
            [
                rule("a", "True"),
                rule("b", "False"),
                rule("c", None),
                rule("d", "True", unlistedKinds=["Widget: not served"]),
                rule("e", "True", failingNodes=[{"node": "edge-1"}], message="1 node refuses it"),
                rule("f", "True", matchedNodes=0, message="selects no node: …"),
            ],
        )
    )
    assert [each.level for each in found] == ["problem", "warning", "problem", "warning", "warning"]
    assert found[0].message == "SyncRule b is not accepted: priority: too high"
    assert found[4].message == "SyncRule f selects no node" and "kubectl get nodes" in found[4].remedy
    assert found[2].remedy.startswith("install the definition")
    denied = rule("f", "True", unlistedKinds=["Secret: the API server answered 403: forbidden"])
    [found_denied] = judge_written("SyncRule", [denied])
    assert found_denied.remedy == "grant the permission: fairlead rbac | kubectl apply -f -"
    assert found[3].remedy == "fairlead explain syncrule/e --node edge-1"


def test_nodes() -> None:
    """Each thing that is wrong, problems first; a thousand of them do not fill the screen."""
    guard = {"id": "a1", "count": 7}
    found = list(judge_nodes([node("a", connected=False), node("b", objectsParked=2, deletionGuard=guard, paused="x")]))
    assert [each.level for each in found] == ["problem", "problem", "warning", "warning", "warning"]
    assert found[-1].message == "1 of 2 edge nodes are connected"
    [both] = judge_nodes([node("a"), node("b")])
    assert (both.level, both.message) == ("ok", "2 of 2 edge nodes are connected")
    many = list(judge_nodes([node(f"n{number}", connected=False) for number in range(1000)]))
    assert len(many) == SHOWN_MAX + 2 and many[-2].message == f"and {1000 - SHOWN_MAX} more of this kind"


def test_rules_without_objects_and_routes_with_warnings() -> None:
    """Accepted, and still worth a look."""
    warned = {"type": "Warned", "status": "True", "message": "a: prioritty: unknown key [edge-1]"}
    routes = {"metadata": {"name": "r"}, "status": {"conditions": [{"type": "Accepted", "status": "True"}, warned]}}
    found = [
        *judge_written("SyncRule", [rule("o", "True", message="selects no object: …")]),
        *judge_written("EdgeRoutes", [routes]),
    ]
    assert [(each.level, each.message) for each in found] == [
        ("warning", "SyncRule o selects no object"),
        ("warning", "EdgeRoutes r has warnings: a: prioritty: unknown key [edge-1]"),
    ]


def test_without_a_hub_no_node_is_to_blame() -> None:
    """That no hub runs is a finding of its own; what else is wrong with a node is still said."""
    [found] = judge_nodes([node("a", connected=False), node("b", connected=False)], is_hub_away=True)
    assert (found.level, found.message) == ("ok", "2 edge nodes; without a hub none is connected")
    [parked] = judge_nodes([node("a", connected=False, objectsParked=2)], is_hub_away=True)
    assert parked.level == "problem" and "parked" in parked.message


def test_a_guarded_node_is_first_told_the_way_back() -> None:
    [found, _] = judge_nodes([node("edge-2", deletionGuard={"id": "a1", "count": 13})])
    assert found.remedy.startswith("a SyncRule, a label or a namespace was probably changed or deleted; restore it")
    assert found.remedy.endswith("If the deletions are intended: fairlead approve edge-2")


def test_a_node_that_was_deleted() -> None:
    condition = {"type": "Connected", "status": "False", "reason": "NodeDeleted", "message": "…"}
    identity = {"state": "Valid", "expires": "2027-02-26T12:00:00Z"}
    [found, _] = judge_nodes([node("edge-3", connected=False, conditions=[condition], identity=identity)])
    assert found.level == "warning" and found.message.endswith("; its EdgeNode remains until 2027-02-26T12:00:00Z")
    assert found.remedy.endswith("fairlead node approve edge-3, or run fairlead node delete edge-3")


def test_a_node_that_is_refused_for_its_fencing_number() -> None:
    why = "this edge has obeyed hub 901, this is 1"
    condition = {"type": "Connected", "status": "False", "reason": "StaleHub", "message": why}
    [found, _] = judge_nodes([node("edge-4", connected=False, conditions=[condition])])
    assert (found.level, found.message) == ("problem", f"node edge-4 is refused: {why}")
    assert found.remedy.endswith("to accept it now: fairlead node approve edge-4")
