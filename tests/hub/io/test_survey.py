"""Accounts from the API objects alone: what `status` and `explain` say where no hub can be asked."""

from __future__ import annotations

import pytest
from tests.support.cluster import Cluster
from tests.support.hub import config_map, edge_node, sync_rule

from fairlead_hub import objectsync
from fairlead_hub.io import survey
from fairlead_hub.io.kube import MERGE_PATCH, Kube
from fairlead_hub.objectsync import Record


@pytest.fixture
def furnished(defined: Cluster, namespace: str) -> str:
    """edge-s, a rule for ConfigMaps of the namespace, one object of it."""
    defined.apply([edge_node("edge-s"), config_map("a", namespace, v="1")])
    defined.apply(sync_rule("survey", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace]}))
    yield namespace
    defined.kubectl("delete", "syncrule", "survey")
    defined.kubectl("delete", "node", "edge-s")


async def recorded(kube: Kube, cluster: Cluster, namespace: str, **fields: object) -> None:
    live = cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/a")
    made = {
        "node": "edge-s", "api_version": "v1", "kind": "ConfigMap", "namespace": namespace, "object_name": "a",
        "uid": live["metadata"]["uid"], "version": "1", "digest": "", "wanted_version": "1", "state": "Parked",
        "reason": "too_sour", "retries": 3,
    }  # fmt: skip
    record = Record(**{**made, **fields})  # type: ignore[arg-type]
    root = f"apis/fairlead.dev/v1alpha1/namespaces/{namespace}/objectsyncs"
    await kube.request("POST", root, objectsync.head(record))
    status = {"status": objectsync.status(record, [], 1, "2026-11-20T00:00:00Z", 1)}
    await kube.request("PATCH", f"{root}/{record.name}/status", status, content_type=MERGE_PATCH)


async def test_explained_by_rules_and_records(client: Kube, cluster: Cluster, furnished: str) -> None:
    """Wanted but never acknowledged; parked and why; not selected; not there."""
    assert (await survey.explain(client, "edge-s", "cm", furnished, "a"))["code"] == "no_record"
    await recorded(client, cluster, furnished)
    found = await survey.explain(client, "edge-s", "ConfigMap", furnished, "a")
    assert found["code"] == "parked" and "too_sour" in found["answer"]
    defined_elsewhere = config_map("elsewhere", "default", v="1")
    await client.request("POST", "api/v1/namespaces/default/configmaps", defined_elsewhere)
    assert (await survey.explain(client, "edge-s", "cm", "default", "elsewhere"))["code"] == "not_selected"
    await client.request("DELETE", "api/v1/namespaces/default/configmaps/elsewhere")
    assert (await survey.explain(client, "edge-s", "cm", furnished, "missing"))["code"] == "no_object"
    assert (await survey.explain(client, "nobody", "cm", furnished, "a"))["code"] == "no_node"


async def test_nodes_and_what_is_parked(client: Kube, cluster: Cluster, furnished: str) -> None:
    """A node that never connected is listed as away; parked records are listed."""
    await recorded(client, cluster, furnished)
    rows = {row["node"]: row for row in await survey.nodes(client)}
    assert rows["edge-s"]["connected"] is False and rows["edge-s"]["lastContact"] == ""
    mine = [one for one in await survey.parked(client) if one["namespace"] == furnished]
    assert [(one["node"], one["object_name"], one["reason"]) for one in mine] == [("edge-s", "a", "too_sour")]
