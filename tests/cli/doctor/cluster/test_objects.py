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
    assert found_denied.remedy == "grant the right: fairlead rbac | kubectl apply -f -"
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


def test_a_node_that_is_refused_for_its_fencing_number() -> None:
    why = "this edge has obeyed hub 901, this is 1"
    condition = {"type": "Connected", "status": "False", "reason": "StaleHub", "message": why}
    [found, _] = judge_nodes([node("edge-4", connected=False, conditions=[condition])])
    assert (found.level, found.message) == ("problem", f"node edge-4 is refused: {why}")
    assert found.remedy.endswith("to end it now: fairlead node approve edge-4")
