"""Findings: which manifests a file holds, and where in it each mistake is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fairlead_cli import manifests
from fairlead_cli.manifests import ManifestFinding, NotReadable

BAD = "FROM /messages/* WHERE temp > 5 INTO $upstream"


def spec(**routes: Any) -> dict[str, Any]:
    return {"schemaVersion": "1.1", "storeAndForwardConfiguration": {}, "routes": routes}


def edge_routes(name: str, **routes: Any) -> dict[str, Any]:
    return {"kind": "EdgeRoutes", "metadata": {"name": name}, "spec": spec(**routes)}


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (spec(), [""]),
        (edge_routes("a"), ["a"]),
        ({"kind": "List", "items": [edge_routes("a"), {"kind": "Pod"}, edge_routes("b"), 5]}, ["a", "b"]),
        ({"kind": "EdgeRoutesList", "items": [edge_routes("a")]}, ["a"]),
        ({"kind": "List", "items": []}, []),
        ({"kind": "Pod"}, []),
        ([1], []),
        ({"modulesContent": {"$edgeHub": {"properties.desired": spec()}}}, [""]),
    ],
)
def test_which_manifests_a_file_holds(value: Any, names: list[str]) -> None:
    """Bare, in objects, in a list as kubectl prints it; other objects are passed over."""
    assert [placed.name for placed in manifests.read(json.dumps(value))] == names


@pytest.mark.parametrize("wrap", [lambda a: a["spec"], lambda a: a, lambda a: {"kind": "List", "items": [1, a]}])
def test_a_mistake_is_shown_where_it_stands(wrap: Any) -> None:
    """However deep the manifest is in the file."""
    text = json.dumps(wrap(edge_routes("a", good="FROM /messages INTO $upstream", bad=BAD)), indent=2)
    (placed,) = manifests.read(text)
    names, (finding,) = manifests.check(placed)
    line = text.split("\n")[finding.line - 1]
    assert names == ["good"]
    assert (line[finding.column - 1], finding.end_column - finding.column) == (">", 1)
    assert finding.message.startswith("bad: > compares")


def test_findings_come_in_the_order_of_the_file() -> None:
    """Fields, places inside routes and warnings together."""
    text = json.dumps(
        spec(a={"route": BAD, "ttl": 5, "priority": 77}, b="FROM /x INTO $upstream", c={"route": 5}), indent=1
    )
    (placed,) = manifests.read(text)
    _, findings = manifests.check(placed)
    assert [(finding.name, finding.severity) for finding in findings] == [
        ("a", "error"),
        ("a", "warning"),
        ("a", "error"),
        ("b", "warning"),
        ("c", "error"),
    ]
    assert [finding.line for finding in findings] == sorted(finding.line for finding in findings)


def test_a_range_over_several_characters() -> None:
    """Carets below all of it, also where the file needs more room than the text."""
    text = json.dumps(spec(a="FROM /messages/* WHERE 'é' = unknown('x') INTO $upstream"))
    (placed,) = manifests.read(text)
    _, findings = manifests.check(placed)
    shown = findings[1].shown("f.json", text).split("\n")
    assert shown[0].startswith("f.json:1:") and "there is no function unknown" in shown[0]
    assert shown[1][shown[2].index("^") : shown[2].rindex("^") + 1] == "unknown"


def test_the_reasons_of_a_document_that_is_no_manifest() -> None:
    """At their keys, or where those should be."""
    (placed,) = manifests.read('{"schemaVersion": "7.0",\n"routes": []}')
    names, findings = manifests.check(placed)
    assert names == []
    assert [(finding.line, finding.column, finding.message.partition(":")[0]) for finding in findings] == [
        (1, 1, "storeAndForwardConfiguration"),
        (1, 19, "schemaVersion"),
        (2, 11, "routes"),
    ]


def test_as_json() -> None:
    """The names of the outside contract."""
    finding = ManifestFinding(line=1, column=2, end_column=3, message="m")
    assert msgspec.to_builtins(finding) == {
        "severity": "error",
        "line": 1,
        "column": 2,
        "endColumn": 3,
        "name": "",
        "message": "m",
    }


def test_what_cannot_be_read() -> None:
    """Neither JSON nor YAML."""
    with pytest.raises(NotReadable):
        manifests.read("{")


def test_mistakes_of_routes_are_listed_beside_those_of_the_document() -> None:
    """All at once, in the order of the file."""
    routes = {"a": {"route": "FROM"}, "b": {"route": "FROM /* INTO $upstream", "priority": 12}}
    store = {"timeToLiveSecs": "x"}
    text = json.dumps({"schemaVersion": "1.1", "routes": routes, "storeAndForwardConfiguration": store})
    names, findings = manifests.check_text(text)
    assert names == [] and [finding.message.partition(":")[0] for finding in findings] == [
        "a", "b", "storeAndForwardConfiguration.timeToLiveSecs"
    ]  # fmt: skip
