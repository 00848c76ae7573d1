"""Findings: which manifests a file holds, and where in it each mistake is."""

from __future__ import annotations

import builtins
import json
from typing import Any

import pytest

from fairlead_cli import manifests
from fairlead_cli.manifests import NotReadable, read_documents

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
    text = json.dumps(wrap(edge_routes("a", good="FROM /messages INTO $upstream", bad=BAD)), indent=2)
    (placed,) = manifests.read(text)
    names, (finding,) = manifests.check(placed)
    line = text.split("\n")[finding.line - 1]
    assert names == ["good"]
    assert (line[finding.column - 1], finding.end_column - finding.column) == (">", 1)
    assert finding.message.startswith("bad: > compares")


def test_findings_come_in_the_order_of_the_file() -> None:
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


def test_1_0_is_for_files() -> None:
    """The API server refuses it in an object."""
    old = {**spec(), "schemaVersion": "1.0"}
    assert manifests.check_text(json.dumps(old)) == ([], [])
    _, (found,) = manifests.check_text(json.dumps({"kind": "EdgeRoutes", "metadata": {"name": "a"}, "spec": old}))
    assert found.message == "schemaVersion: 1.0 is not for EdgeRoutes objects; 1.1 to 1.3 are known, and in a file 1.0"


def test_a_range_over_several_characters() -> None:
    """Carets below all of it, also where the file needs more room than the text."""
    text = json.dumps(spec(a="FROM /messages/* WHERE 'é' = unknown('x') INTO $upstream"))
    (placed,) = manifests.read(text)
    _, findings = manifests.check(placed)
    assert len(findings) == 1  # not the comparison, which only follows from it
    shown = findings[0].shown("f.json", text).split("\n")
    assert shown[0].startswith("f.json:1:") and "unknown function unknown" in shown[0]
    assert shown[1][shown[2].index("^") : shown[2].rindex("^") + 1] == "unknown"


def test_the_reasons_of_a_document_that_is_no_manifest() -> None:
    (placed,) = manifests.read('{"schemaVersion": "7.0",\n"routes": []}')
    names, findings = manifests.check(placed)
    assert names == []
    assert [(finding.line, finding.column, finding.message.partition(":")[0]) for finding in findings] == [
        (1, 1, "storeAndForwardConfiguration"),
        (1, 19, "schemaVersion"),
        (2, 11, "routes"),
    ]


def test_mistakes_of_routes_are_listed_beside_those_of_the_document() -> None:
    routes = {"a": {"route": "FROM"}, "b": {"route": "FROM /* INTO $upstream", "priority": 12}}
    store = {"timeToLiveSecs": "x"}
    text = json.dumps({"schemaVersion": "1.1", "routes": routes, "storeAndForwardConfiguration": store})
    names, findings = manifests.check_text(text)
    assert names == [] and [finding.message.partition(":")[0] for finding in findings] == [
        "a", "b", "storeAndForwardConfiguration.timeToLiveSecs"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("field", "marked", "said"),
    [
        ({"nodeSelectr": {}}, '"nodeSelectr"', "unknown field nodeSelectr; did you mean nodeSelector?"),
        (
            {"nodeSelector": {"labels": {}}},
            '"labels"',
            "unknown field nodeSelector.labels; known are matchLabels, matc",
        ),
        ({"retries": 3}, '"retries"', "unknown field retries; known are nodeSelector, schemaVersion, routes, storeAnd"),
        ({"routes": {"a": {"route": "FROM /* INTO $upstream", "prioritty": 1}}}, '"prioritty"', "a: prioritty: unknow"),
        ({"storeAndForwardConfiguration": {"ttl": 5}}, '"ttl"', "storeAndForwardConfiguration: ttl: unknown key, it"),
    ],
)
def test_an_unknown_field_is_marked_at_its_key(field: dict[str, Any], marked: str, said: str) -> None:
    """The API server refuses those of an object's spec, also in YAML; a bare manifest may have any."""
    text = json.dumps({**edge_routes("a"), "spec": {**spec(), **field}})
    for content, key in ((text, marked), ("# YAML\n" + text.replace('"1.1"', "'1.1'").replace('"', ""), marked[1:-1])):
        _, (found,) = manifests.check_text(content)
        _, line, carets = found.shown("f", content).split("\n")
        assert found.message.startswith(said)
        assert line[carets.index("^") : carets.rindex("^") + 1] == key
    assert not [each for each in manifests.check_text(json.dumps({**spec(), **field}))[1] if each.severity == "error"]


# ---- where in a file a value, and a character of it, stands ----


def test_json_places() -> None:
    """Paths of keys, arrays by index; what is not there gives the place around it."""
    (document,) = read_documents('{"a": {"b": [1, "x"]},\n "c": null}')
    assert document.value == {"a": {"b": [1, "x"]}, "c": None}
    assert [document.place(path) for path in (("a",), ("a", "b"), ("a", "b", "1"), ("c",), ("a", "z"), ("z",))] == [
        (1, 7),
        (1, 13),
        (1, 17),
        (2, 7),
        (1, 7),
        (1, 1),
    ]


@pytest.mark.parametrize(
    ("quoted", "value", "line", "column", "expected"),
    [
        ('"abc"', "abc", 1, 1, 9),
        ('"abc"', "abc", 1, 3, 11),
        ('"abc"', "abc", 1, 4, 12),
        (r'"a\"b\"c"', 'a"b"c', 1, 5, 15),
        (r'"a\nbc"', "a\nbc", 2, 2, 13),
        (r'"\u0041b"', "Ab", 1, 2, 15),
        (r'"\ud83d\ude00b"', "\U0001f600b", 1, 2, 21),
        (r'"\\n"', "\\n", 1, 2, 11),
        ('""', "", 1, 1, 9),
    ],
)
def test_inside_a_json_text(quoted: str, value: str, line: int, column: int, expected: int) -> None:
    (document,) = read_documents('{"key":' + quoted + "}")
    assert document.value["key"] == value
    assert document.place_inside(("key",), value, line, column) == (1, expected)


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("k: abc def", 1, 5, (1, 8)),
        ("k: 'it''s x'", 1, 6, (1, 11)),
        ('k: "a\\"b"', 1, 3, (1, 8)),
        ("k: |\n  abc\n  def\n", 2, 2, (3, 4)),
        ("k: >-\n  abc\n  def\n", 1, 6, (3, 4)),
        ("k: abc\n  def", 1, 6, (2, 4)),
        ("k: abc", 1, 4, (1, 7)),
    ],
)
def test_inside_a_yaml_text(text: str, line: int, column: int, expected: tuple[int, int]) -> None:
    (document,) = read_documents(text)
    assert document.place_inside(("k",), document.value["k"], line, column) == expected


def test_yaml_documents_and_names_given_twice() -> None:
    first, second = read_documents("a: 1\n---\n---\nb: [1, {c: 2}]\nb: 3\n")
    assert (first.value, second.value) == ({"a": 1}, {"b": 3})
    assert second.repeated == [("b",)]
    assert second.place(("b",)) == (5, 4)


def test_json_names_given_twice() -> None:
    (document,) = read_documents('{"a": 1, "a": 2, "b": {"a": 3}}')
    assert (document.value, document.repeated) == ({"a": 2, "b": {"a": 3}}, [("a",)])


def test_a_place_in_what_is_not_there() -> None:
    (document,) = read_documents('{"a": {"b": "x"}}')
    assert document.place_inside(("a", "z"), "x", 1, 1) == (1, 7)


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        ('{"a": }', "not JSON", (1, 7)),
        ("{", "not JSON", (1, 2)),
        ("a: [1", "not YAML", (1, 6)),
        ("a: b: c", "not YAML", (1, 5)),
        ("- " * 2000, "nested too deeply", (1, 1)),
    ],
)
def test_a_file_that_cannot_be_read(text: str, said: str, place: tuple[int, int]) -> None:
    with pytest.raises(NotReadable) as refused:
        read_documents(text)
    assert said in str(refused.value)
    assert (refused.value.line, refused.value.column) == place


def test_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "yaml":
            raise ModuleNotFoundError("No module named 'yaml'", name="yaml")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert read_documents("{}")[0].value == {}
    with pytest.raises(NotReadable, match="pip install pyyaml"):
        read_documents("a: 1")
