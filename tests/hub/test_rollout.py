"""How far one object is: which nodes count as done, which are waited for, which need a person."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead_hub import rollout
from fairlead_hub.cluster import content, sync_rule
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.rollout import NodeProgress
from fairlead_hub.status.object_sync import Record

KIND = content.ServedKind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
AWAY: dict[str, Any] = {"status": {"connected": False, "lastContactTime": "2026-11-20T12:00:00Z"}}
HERE: dict[str, Any] = {"status": {"connected": True}}


def live(value: str = "1", **annotations: str) -> LiveObject:
    metadata = {"name": "prices", "namespace": "shop", "uid": "u1", "resourceVersion": "7", "annotations": annotations}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}}
    return content.build(msgspec.Raw(msgspec.json.encode(body)), KIND)


def record(node: str, **fields: Any) -> Record:
    defaults: dict[str, Any] = {
        "node": node, "api_version": "v1", "kind": "ConfigMap", "namespace": "shop", "object_name": "prices",
        "uid": "u1", "version": "5", "digest": live().digest, "wanted_version": "7", "state": "Synced",
    }  # fmt: skip
    return Record(**{**defaults, **fields})


def of(node_record: Record | None, account: dict[str, Any], **annotations: str) -> NodeProgress:
    records = [node_record] if node_record is not None else []
    (row,) = rollout.judge(live(**annotations), ["edge-1"], records, {"edge-1": account}).rows
    return row


@pytest.mark.parametrize("account", [HERE, AWAY, {}])
def test_the_content_counts_not_the_version(account: dict[str, Any]) -> None:
    """A change of status alone moves the object's version; also a node that is away has what it acknowledged."""
    assert of(record("edge-1"), account) == NodeProgress(
        node="edge-1", state="held", version="5", away=account is not HERE
    )


def test_what_is_on_its_way_is_waited_for() -> None:
    """Never sent, an older content, an object of the same name that is gone."""
    assert of(None, HERE).state == "pending"
    assert of(record("edge-1", digest="old"), HERE) == NodeProgress(node="edge-1", state="pending", version="5")
    assert of(record("edge-1", uid="u0"), HERE) == NodeProgress(node="edge-1", state="pending")
    assert of(record("edge-1", version="", digest="", reason="Lagging", message="pending for 9 s"), HERE).reason == (
        "pending for 9 s"
    )


def test_a_node_that_is_away_says_since_when() -> None:
    assert of(None, AWAY) == NodeProgress(
        node="edge-1", state="away", reason="last contact 2026-11-20T12:00:00Z", away=True
    )
    assert of(None, {}).reason == "never connected"


def test_what_stays_until_somebody_does_something() -> None:
    """Paused object, paused node, parked, too large: each with its reason."""
    why = "for the night"
    paused = {"metadata": {"annotations": {"fairlead.dev/paused": why}}, **HERE}
    found = [
        of(None, HERE, **{"fairlead.dev/paused": why}),
        of(None, paused),
        of(record("edge-1", digest="old", state="Parked", reason="refused", next_retry_time="soon"), HERE),
    ]
    assert [(row.state, row.reason) for row in found] == [
        ("paused", "the object: for the night"),
        ("paused", "the node: for the night"),
        ("parked", "refused; tried again at soon"),
    ]
    problem = content.UndeliverableObject("too_large", "it has 5 MB")
    huge = rollout.judge(msgspec.structs.replace(live(), problem=problem), ["edge-1"], [], {"edge-1": HERE})
    assert huge.rows[0].state == "undeliverable" and huge.stopped == huge.rows


def test_a_node_that_should_not_have_it_any_more_is_waited_for() -> None:
    found = rollout.judge(live(), ["edge-1"], [record("edge-1"), record("edge-9")], {})
    assert [(row.node, row.state) for row in found.rows] == [("edge-1", "held"), ("edge-9", "removing")]
    assert (found.nodes, found.is_done) == (1, False)
    assert rollout.judge(live(), ["edge-1"], [record("edge-1")], {}).is_done
    assert rollout.judge(live(), [], [], {}).is_done


def test_a_node_that_is_away_may_still_have_to_let_go() -> None:
    accounts = {"edge-8": HERE, "edge-9": AWAY}
    found = rollout.judge(live(), [], [record("edge-8"), record("edge-9")], accounts)
    assert [(row.state, row.away) for row in found.rows] == [("removing", False), ("removing", True)]


def test_it_is_not_done_while_its_nodes_are_not_known() -> None:
    """Whatever those have that are known."""
    found = rollout.judge(live(), ["edge-1"], [record("edge-1")], {"edge-1": HERE}, ["SyncRule r cannot be read"])
    assert found.rows[0].state == "held" and not found.is_done


def test_a_node_that_refuses_routes_is_not_done() -> None:
    """It holds the object; of an older generation its report says nothing."""
    routes = sync_rule.routes(
        {"metadata": {"name": "prices", "uid": "u1", "generation": 2}, "spec": {"schemaVersion": "1.3", "routes": {}}}
    )

    def row(**said: Any) -> NodeProgress:
        rows = [{"name": "prices", "uid": "u1", "observedGeneration": 2, **said}] if said else []
        account = {"status": {"connected": True, "routes": rows}}
        return rollout.judge(live(), ["edge-1"], [record("edge-1")], {"edge-1": account}, routes=routes).rows[0]

    mistakes = [{"route": "a", "message": "no table prices"}, {"route": "b", "message": "no table b"}]
    refused = row(errors=mistakes)
    assert (refused.state, refused.reason) == ("refused", "route a: no table prices (and 1 more)")
    assert row(acceptedRoutes=["a"]).state == "held"
    assert (row().state, row(observedGeneration=1, errors=mistakes).state) == ("pending", "pending")
