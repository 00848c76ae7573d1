"""Values: what is documented, what is allowed, and what is refused with a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.support.charts import CHARTS, RELEASE, helm_with

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
    "ingest without messaging": ("fairlead", {"messaging": {"enabled": False}}, "needs messaging.enabled"),
    "plain link": ("fairlead-edge", {"hubUrl": "ws://hub:1", "certificates": {"source": "host"}}, "/hubUrl"),
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
        if isinstance(values[key], dict):
            wrong += documented(values[key], schema["properties"][key], f"{path}{key}.")
    return wrong


@pytest.mark.parametrize("chart", ["fairlead", "fairlead-edge"])
def test_schema_and_values_file_name_the_same_keys(chart: str) -> None:
    """Every value has a documented default, and every default is allowed."""
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
    values = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(values)
    assert documented(values, schema) == []


@pytest.mark.usefixtures("helm")
@pytest.mark.parametrize("case", BAD)
def test_bad_values_are_refused_with_a_reason(case: str) -> None:
    """helm stops before anything reaches the cluster, and names the key."""
    chart, values, reason = BAD[case]
    with pytest.raises(AssertionError, match=reason):
        helm_with(values, "template", RELEASE, str(CHARTS / chart))


def test_definitions_are_the_projects_own() -> None:
    """The chart's crds/ hold exactly the files of the project's crds/."""
    ours = {path.name: path.read_bytes() for path in (CHARTS.parent / "crds").glob("*.yaml")}
    assert ours
    assert {path.name: path.read_bytes() for path in (CHARTS / "fairlead" / "crds").glob("*.yaml")} == ours
