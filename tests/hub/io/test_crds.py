"""The definitions on a real API server: they refuse what the hub cannot read, and take what it can."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.support.kube.cluster import Cluster

from fairlead_hub.cluster import sync_rule

CM: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
LINEAR = {"minimum_delay": 0, "retry_backoff_function": "linear"}


def selecting(**selector: Any) -> dict[str, Any]:
    return {"resources": [CM], "nodeSelector": selector}


def expressing(**expression: Any) -> dict[str, Any]:
    return selecting(matchExpressions=[expression])


def delivering(**delivery: Any) -> dict[str, Any]:
    return {"resources": [CM], "delivery": delivery}


def entry(**fields: Any) -> dict[str, Any]:
    return {"resources": [{**CM, **fields}]}


GOOD: list[dict[str, Any]] = [
    {"resources": [CM]},
    {"resources": [CM, CM], "priority": 0, "delivery": {}, "nodeSelector": {}},
    selecting(matchLabels={"site": "x", "example.com/site": "", "a-b_c.d": "1.2-3_4"}),
    selecting(matchExpressions=[], matchLabels={}),
    expressing(key="role", operator="In", values=["a", "b"]),
    expressing(key="role", operator="NotIn", values=[""]),
    expressing(key="role", operator="Exists"),
    expressing(key="role", operator="DoesNotExist", values=[]),
    delivering(minimum_delay=1, maximum_delay=1, backoff_retries=0),
    delivering(**LINEAR),
    delivering(minimum_delay=31, maximum_delay=31.5),
    delivering(retries_max=1, backoff_retries=200_000, retries_with_no_delay=200_000),
    delivering(compatibility="sns"),
    delivering(compatibility="zaqar"),
    entry(namespaces=[], labelSelector={}, select="all", delivery=LINEAR, priority=9),
    entry(namespaces=["shop"], labelSelector={"matchLabels": {"a": "b"}}, select="referenced"),
    {"resources": [{"apiVersion": "apps/v1", "kind": "Deployment"}] * 256},
    {"resources": [{"apiVersion": "v1", "kind": "Pod", "select": "bound"}]},
    {"resources": [{"apiVersion": "example.com/v1", "kind": "ObjectSync"}]},
]
BAD: list[dict[str, Any]] = [
    {},
    {"resources": []},
    {"resources": [{"kind": "Pod"}]},
    {"resources": [CM], "nodeselector": {"site": "x"}},
    {"resources": [CM], "prioriti": 3},
    {"resources": [CM], "priority": 10},
    selecting(site="x"),
    selecting(matchLabels={"a": "b"}, site="x"),
    selecting(matchLables={"a": "b"}),
    selecting(matchLabels={"a b": "c"}),
    selecting(matchLabels={"a": "-b"}),
    selecting(matchLabels={"a": "b" * 64}),
    selecting(matchLabels={"/a": "b"}),
    expressing(key="role", operator="In"),
    expressing(key="role", operator="NotIn", values=[]),
    expressing(key="role", operator="Exists", values=["a"]),
    expressing(key="role", operator="Like", values=["a"]),
    expressing(key="role", operator="In", values=["a"], value="b"),
    expressing(key="", operator="Exists"),
    expressing(key="a b", operator="Exists"),
    expressing(key="a", operator="In", values=["b c"]),
    delivering(minimum_delay=9, maximum_delay=1),
    delivering(minimum_delay=31),
    delivering(maximum_delay=0.5),
    delivering(minimum_delay=0),
    delivering(minimum_delay=0, retry_backoff_function="geometric"),
    delivering(minimum_delay=-1),
    delivering(maximum_delay=2_000_000_000),
    delivering(backoff_retries=200_000, retries_with_no_delay=1),
    delivering(compatibility="sns", minimum_delay=1.5),
    delivering(compatibility="sns", maximum_delay=3601),
    delivering(compatibility="zaqar", maximum_delay=5),
    delivering(ack_timeout=0),
    entry(select="bound"),
    entry(select="some"),
    entry(labelselector={}),
    entry(labelSelector={"site": "x"}),
    entry(delivery={"minimum_delay": 9, "maximum_delay": 1}),
    entry(priority=-1),
    entry(apiVersion="a/b/c"),
    entry(apiVersion="../v1"),
    entry(apiVersion=""),
    entry(kind="Config Map"),
    entry(apiVersion="fairlead.dev/v1alpha1", kind="ObjectSync"),
    entry(apiVersion="fairlead.dev/v1alpha1", kind="ClusterObjectSync"),
    entry(namespaces="shop"),
]
NO_ROUTES: dict[str, Any] = {"routes": {}, "schemaVersion": "1.1", "storeAndForwardConfiguration": {}}
GOOD_ROUTES: list[dict[str, Any]] = [
    NO_ROUTES,
    {**NO_ROUTES, "routes": {"a": "x", "b": {"route": "x", "odd": 1}}, "nodeSelector": {}},
    {**NO_ROUTES, "storeAndForwardConfiguration": {"timeToLiveSecs": 5, "odd": 1}},
]
BAD_ROUTES: list[dict[str, Any]] = [
    {**NO_ROUTES, "nodeSelector": {"site": "x"}},
    {**NO_ROUTES, "nodeselector": {"matchLabels": {"site": "x"}}},
    {**NO_ROUTES, "nodeSelector": {"matchExpressions": [{"key": "role", "operator": "In"}]}},
    {**NO_ROUTES, "nodeSelector": {"matchLabels": {"a b": "c"}}},
]


def refusals(cluster: Cluster, kind: str, specs: list[dict[str, Any]], validate: str) -> list[str]:
    """What the API server says of each; "" it would take it.  One kubectl for all."""
    items = [
        {"apiVersion": "fairlead.dev/v1alpha1", "kind": kind, "metadata": {"name": f"n{n}"}, "spec": spec}
        for n, spec in enumerate(specs)
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    command = [str(cluster.assets / "kubectl"), "--kubeconfig", str(cluster.kubeconfig), "create", "--dry-run=server"]
    done = subprocess.run(
        [*command, f"--validate={validate}", "-o", "name", "-f", "-"],
        input=listed, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    taken = {line.rpartition("/n")[2] for line in done.stdout.split()}
    return ["" if str(n) in taken else done.stderr for n in range(len(specs))]


def readable(kind: str, spec: dict[str, Any]) -> bool:
    body = {"metadata": {"name": "n", "uid": "u"}, "spec": spec}
    try:
        sync_rule.rule(body) if kind == "SyncRule" else sync_rule.routes(body)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("validate", ["strict", "ignore"])
@pytest.mark.parametrize(("kind", "good", "bad"), [("SyncRule", GOOD, BAD), ("EdgeRoutes", GOOD_ROUTES, BAD_ROUTES)])
def test_the_api_server_and_the_hub_agree(
    defined: Cluster, kind: str, good: list[dict[str, Any]], bad: list[dict[str, Any]], validate: str
) -> None:
    """With kubectl's own checks and without: what a misspelled selector meant is never lost in silence."""
    assert [spec for spec in good if not readable(kind, spec)] == []
    assert [spec for spec in bad if readable(kind, spec)] == []
    said = refusals(defined, kind, [*good, *bad], validate)
    assert [(spec, text) for spec, text in zip(good, said, strict=False) if text] == []
    assert [spec for spec, text in zip(bad, said[len(good) :], strict=True) if not text] == []


def test_columns_count_by_one_name_and_tell_versions_by_another(defined: Cluster) -> None:
    """Wanted and Held are versions of one object; how many objects a node should hold and holds is called so."""
    columns = {}
    for kind in ("edgenodes", "objectsyncs", "clusterobjectsyncs", "syncrules", "edgeroutes"):
        found = defined.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}.fairlead.dev")
        [version] = found["spec"]["versions"]
        columns[kind] = [each["name"] for each in version["additionalPrinterColumns"] if not each.get("priority")]
    contract = ["Node", "Kind", "Name", "Wanted", "Held", "State", "Retries", "Age"]
    assert columns["objectsyncs"] == columns["clusterobjectsyncs"] == contract
    assert {"Objects wanted", "Objects held"} <= set(columns["edgenodes"])
    assert not {"Wanted", "Held"} & {*columns["edgenodes"], *columns["syncrules"], *columns["edgeroutes"]}
    assert columns["syncrules"][-1] == columns["edgeroutes"][-1] == "Message"
