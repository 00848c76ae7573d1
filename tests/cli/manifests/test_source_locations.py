"""Where in a file a value, and a character of it, stands."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from fairlead_cli.manifests import NotReadable, read_documents


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
    """Escapes take more room in the file than in the text."""
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
    """Plain, quoted, literal and folded."""
    (document,) = read_documents(text)
    assert document.place_inside(("k",), document.value["k"], line, column) == expected


def test_yaml_documents_and_names_given_twice() -> None:
    """Each document has its own places; empty ones are left out."""
    first, second = read_documents("a: 1\n---\n---\nb: [1, {c: 2}]\nb: 3\n")
    assert (first.value, second.value) == ({"a": 1}, {"b": 3})
    assert second.repeated == [("b",)]
    assert second.place(("b",)) == (5, 4)


def test_json_names_given_twice() -> None:
    """The last one counts, the document remembers."""
    (document,) = read_documents('{"a": 1, "a": 2, "b": {"a": 3}}')
    assert (document.value, document.repeated) == ({"a": 2, "b": {"a": 3}}, [("a",)])


def test_a_place_in_what_is_not_there() -> None:
    """The nearest place around it."""
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
def test_what_cannot_be_read(text: str, said: str, place: tuple[int, int]) -> None:
    """With the place where that shows."""
    with pytest.raises(NotReadable) as refused:
        read_documents(text)
    assert said in str(refused.value)
    assert (refused.value.line, refused.value.column) == place


def test_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON still works; for YAML one sentence says what to install."""
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "yaml":
            raise ModuleNotFoundError("No module named 'yaml'", name="yaml")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert read_documents("{}")[0].value == {}
    with pytest.raises(NotReadable, match="pip install pyyaml"):
        read_documents("a: 1")
