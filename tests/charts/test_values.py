"""Values: what is documented, what is allowed, and what is refused with a reason."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.support.kube.charts import CHARTS, RELEASE, helm, helm_with

BAD: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "unknown key": ("fairlead", {"hubb": {}}, "hubb"),
    "unknown nested key": ("fairlead", {"hub": {"replicas": 3}}, "replicas"),
    "service type": ("fairlead", {"hub": {"service": {"type": "nodeport", "port": 1}}}, "/hub/service/type"),
    "port as text": ("fairlead", {"hub": {"service": {"type": "ClusterIP", "port": "10000"}}}, "/hub/service/port"),
    "topic without namespace": ("fairlead", {"ingest": {"topics": ["telemetry"]}}, "/ingest/topics/0"),
    "size": (
        "fairlead",
        {"messaging": {"persistence": {"type": "claim", "size": "big"}}},
        "/messaging/persistence/size",
    ),
    "node name": ("fairlead", {"certificates": {"edges": ["Node_1"]}}, "/certificates/edges/0"),
    "nodes' issuer without its authority": (
        "fairlead",
        {"certificates": {"source": "cert-manager", "certManager": {"edge": {"issuerRef": {"name": "shops"}}}}},
        "needs certificates.certManager.edge.trust",
    ),
    "issuer that is no cert-manager's": (
        "fairlead",
        {
            "certificates": {
                "source": "cert-manager",
                "certManager": {
                    "edge": {"issuerRef": {"name": "x", "group": "example.com"}, "trust": {"name": "authority"}}
                },
            }
        },
        "the hub requests certificates only from Issuers and ClusterIssuers of cert-manager.io",
    ),
    "signer without its source": (
        "fairlead",
        {"hub": {"identity": {"signer": "cert-manager"}}},
        "needs certificates.source=cert-manager",
    ),
    "ingest without messaging": ("fairlead", {"messaging": {"enabled": False}}, "needs messaging.enabled"),
    "executors without an object store": ("fairlead", {"ingest": {"spark": {"mode": "kubernetes"}}}, "must be s3://"),
    "executors and a second table in a folder": (
        "fairlead",
        {
            "ingest": {
                "table": "s3://tables/rows",
                "spark": {"mode": "kubernetes"},
                "config": {"pipelines": [{"topics": ["a/b"], "table": "/data/x", "checkpoint": "/data/y"}]},
            }
        },
        "/data/x must be s3://",
    ),
    "executors and a table in a folder, said in config": (
        "fairlead",
        {
            "ingest": {
                "table": "s3://tables/rows",
                "spark": {"mode": "kubernetes"},
                "config": {"table": "/data/z"},
            }
        },
        "/data/z must be s3://",
    ),
    "executors that would remember repeats": (
        "fairlead",
        {
            "ingest": {
                "table": "s3://tables/rows",
                "spark": {"mode": "kubernetes"},
                "config": {"dedupe_seconds": 60},
            }
        },
        "dedupe_seconds keeps its state in the checkpoint",
    ),
    "way to run Spark": ("fairlead", {"ingest": {"spark": {"mode": "standalone"}}}, "/ingest/spark/mode"),
    "memory of executors": (
        "fairlead",
        {"ingest": {"spark": {"executors": {"memory": "1Gi"}}}},
        "/ingest/spark/executors/memory",
    ),
    "no executors": (
        "fairlead",
        {"ingest": {"spark": {"executors": {"instances": 0}}}},
        "/ingest/spark/executors/instances",
    ),
    "unknown setting": ("fairlead", {"hub": {"config": {"lisen": "0.0.0.0:1"}}}, "lisen"),
    "unknown nested setting": ("fairlead", {"messaging": {"config": {"cache": {"bytes": 1}}}}, "bytes"),
    "setting of another type": ("fairlead", {"hub": {"config": {"link": {"nodes_max": "many"}}}}, "/link/nodes_max"),
    "setting that is no choice": ("fairlead", {"ingest": {"config": {"limits": {"batch_rows": 1.5}}}}, "/batch_rows"),
    "setting out of its range": ("fairlead", {"hub": {"config": {"record": {"flush_seconds": 0}}}}, "/flush_seconds"),
    "misspelt choice": ("fairlead", {"hub": {"config": {"link": {"recreated_nodes": "held"}}}}, "/recreated_nodes"),
    "edge's setting out of its range": ("fairlead-edge", {"config": {"store": {"max_bytes": 1}}}, "/max_bytes"),
    "setting of one table in a list": ("fairlead", {"ingest": {"config": {"pipelines": [{"tabel": "x"}]}}}, "tabel"),
    "unknown setting of the edge": ("fairlead-edge", {"config": {"hub-url": "x"}}, "hub-url"),
    "plain link": ("fairlead-edge", {"hubUrl": "ws://hub:1", "certificates": {"source": "host"}}, "/hubUrl"),
    # Its network policy would let out every port, or port 5.
    "link without a port": (
        "fairlead-edge",
        {"hubUrl": "wss://hub.example", "certificates": {"source": "host"}},
        "/hubUrl",
    ),
    "address without a port": (
        "fairlead-edge",
        {"hubUrl": "wss://10.0.0.5", "certificates": {"source": "host"}},
        "/hubUrl",
    ),
    "verb that is none": (
        "fairlead",
        {"messaging": {"access": {"more": [{"subject": "a", "verbs": ["write"], "topics": ["*"]}]}}},
        "/messaging/access/more/0/verbs/0",
    ),
    "no nodes": ("fairlead-edge", {}, "names no node"),
}


def documented(values: Mapping[str, Any], schema: Mapping[str, Any], path: str = "") -> list[str]:
    """Keys that the schema knows and values.yaml does not show, and the other way round."""
    if "properties" not in schema:
        return []
    known, shown = set(schema["properties"]) - {"global"}, set(values)
    wrong = [f"{path}{key}: not in values.yaml" for key in sorted(known - shown)]
    wrong += [f"{path}{key}: not in the schema" for key in sorted(shown - known)]
    for key in sorted(known & shown):
        if isinstance(values[key], dict) and key != "config":  # the programs' own pages document those
            wrong += documented(values[key], schema["properties"][key], f"{path}{key}.")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("chart", ["fairlead", "fairlead-edge"])
def test_schema_and_values_file_name_the_same_keys(chart: str) -> None:
    """Every value has a documented default, and every default is allowed."""
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
    values = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(values)
    assert documented(values, schema) == []


def test_the_page_that_installs_it_lists_kinds_as_the_schema_allows() -> None:
    """`hub.resources` is a list of rules, which --set cannot write."""
    page = (CHARTS.parent / "docs" / "howto" / "install.md").read_text()
    [shown] = re.findall(r"--set-json 'hub\.resources=(.*)'", page)
    schema = json.loads((CHARTS / "fairlead" / "values.schema.json").read_text())
    Draft202012Validator(schema).validate({"hub": {"resources": json.loads(shown)}})
    assert not Draft202012Validator(schema).is_valid({"hub": {"resources": ["configmaps"]}})


@pytest.mark.process
@pytest.mark.usefixtures("helm")
@pytest.mark.parametrize("case", BAD)
def test_bad_values_are_refused_with_a_reason(case: str) -> None:
    """helm stops before anything reaches the cluster, and names the key."""
    chart, values, reason = BAD[case]
    with pytest.raises(AssertionError, match=reason):
        helm_with(values, "template", RELEASE, str(CHARTS / chart))


@pytest.mark.parametrize("name", ["_names.tpl", "_toml.tpl"])
def test_shared_templates_are_the_same_in_both_charts(name: str) -> None:
    """Charts cannot share files without a third chart; these two stay equal but for their prefix."""
    one, two = ((CHARTS / chart / "templates" / name).read_text() for chart in ("fairlead", "fairlead-edge"))
    assert two == one.replace('"fairlead.', '"fairlead-edge.')


@pytest.mark.process
@pytest.mark.usefixtures("helm")
def test_package_holds_the_definitions_themselves(tmp_path: Path) -> None:
    """What people install, and nothing is said on the way."""
    done = helm("package", str(CHARTS / "fairlead"), "--destination", str(tmp_path))
    assert done.returncode == 0 and not done.stderr, done.stderr
    with tarfile.open(next(tmp_path.glob("*.tgz"))) as archive:
        held = {member.name: member for member in archive.getmembers() if "/crds/" in member.name}
        assert {Path(name).name for name in held} == {path.name for path in (CHARTS.parent / "crds").glob("*.yaml")}
        assert all(member.isreg() and member.size for member in held.values())


NEW: Mapping[str, Mapping[str, Any]] = {
    "fairlead": {
        "priorityClass": None,
        "monitoring": None,
        "networkPolicy": {
            "enabled": True, **dict.fromkeys(("metricsFrom", "dnsTo", "apiServer", "hub", "messaging", "ingest"))
        },
        "ingest": dict.fromkeys(
            (
                "priorityClassName", "topologySpreadConstraints", "podDisruptionBudget", "spark", "storeAuthority",
                "files", "extraVolumes", "extraVolumeMounts", "serviceAccount", "compaction",
            )
        ),
        "messaging": dict.fromkeys(
            ("priorityClassName", "topologySpreadConstraints", "podDisruptionBudget", "access", "tokenReview")
        ),
        "hub": dict.fromkeys(("priorityClassName", "topologySpreadConstraints", "podDisruptionBudget", "identity")),
    },
    "fairlead-edge": {"monitoring": None, "networkPolicy": None, "priorityClassName": None},
}  # fmt: skip
"""Values that an installation of the version before does not have; null takes the default away."""


@pytest.mark.process
@pytest.mark.usefixtures("helm")
@pytest.mark.parametrize("chart", NEW)
def test_an_upgrade_that_reuses_values_lacks_the_new_ones(chart: str) -> None:
    """`helm upgrade --reuse-values` takes no new default, and is what people type: nothing may need one."""
    values = {**NEW[chart], "certificates": {"source": "existing" if chart == "fairlead" else "host"}}
    text = helm_with(values, "template", RELEASE, str(CHARTS / chart))
    kinds = [each["kind"] for each in yaml.safe_load_all(text) if each]
    assert kinds.count("NetworkPolicy") == (4 if chart == "fairlead" else 0)
    assert not {"ServiceMonitor", "PodMonitor", "PrometheusRule", "PodDisruptionBudget"} & set(kinds)
    assert "- ports: null" not in text and "- ports: []" not in text


@pytest.mark.process
@pytest.mark.usefixtures("helm")
@pytest.mark.parametrize(
    ("ingest", "key"),
    [
        ({"table": "s3://tables/rows", "spark": {"mode": "kubernetes", "executors": None}}, "ingest.spark.executors"),
        ({"compaction": {"enabled": True, "schedule": None}}, "ingest.compaction.schedule"),
    ],
)
def test_what_is_switched_on_without_its_defaults_is_refused_with_the_way(ingest: Mapping[str, Any], key: str) -> None:
    """`--reuse-values --set …` of something new: nothing but what was set is there."""
    with pytest.raises(AssertionError, match=f"{key}: is empty, .* ignores new defaults; use --reset-then-reuse"):
        helm_with({"ingest": ingest}, "template", RELEASE, str(CHARTS / "fairlead"))


@pytest.mark.process
@pytest.mark.usefixtures("helm")
def test_policies_with_peers_still_let_helm_test_in() -> None:
    """Its Pod asks the link, messaging and every health port; peers that are named do not shut it out."""
    peer = [{"ipBlock": {"cidr": "198.51.100.0/24"}}]
    policy = {"enabled": True, "metricsFrom": peer, "hub": {"linkFrom": peer}, "messaging": {"clientsFrom": peer}}
    values = {"networkPolicy": policy, "certificates": {"source": "existing"}}
    text = helm_with(values, "template", RELEASE, str(CHARTS / "fairlead"))
    made = [each for each in yaml.safe_load_all(text) if each and each["kind"] == "NetworkPolicy"]
    rules = [(each["metadata"]["name"], rule) for each in made for rule in each["spec"].get("ingress") or ()]
    assert {rule["ports"][0]["port"] for _, rule in rules} == {"link", "rest", "health"}
    for name, rule in rules:
        components = [
            each["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            for each in rule["from"]
            if "podSelector" in each
        ]
        assert "test" in components and peer[0] in rule["from"], (name, rule)
