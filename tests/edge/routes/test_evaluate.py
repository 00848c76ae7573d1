"""Compiling: names and where they look, functions of the twin, and mistakes innermost first."""

from __future__ import annotations

import pytest
from tests.support.edges.routes import JSON_BODY, TWIN, message, mistakes, value

from fairlead_edge.routes.compiler import ERRORS_MAX, compile_node, compile_tree
from fairlead_edge.routes.errors import CompileError
from fairlead_edge.routes.parser import parse_condition
from fairlead_edge.routes.values import Type


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("Unit = 'x' AND uNIT = 'x'", True),
        ("$origin = 'sys'", True),
        ("{$origin} = 'sys'", True),
        ("{ $ORIGIN } = 'sys'", True),
        ("$both = 'application'", True),
        ("{$both} = 'system'", True),
        ("is_defined(origin)", False),
        ("is_defined($unit)", False),
        ("$body = 'raw'", True),
        ("$body.a.b[1] = 2", True),
        ("$BODY.a.b[1] = 2", True),
        ("is_null($body.A.b[1])", True),
        ("is_null($body.a.b[9])", True),
        ("is_null($body.a.b.c)", True),
        ("$body.a.c = 'from the property'", True),
        ("{$body.a.c} = 3", True),
    ],
)
def test_where_names_look(condition: str, expected: bool) -> None:
    """Properties in any case, paths in exactly theirs; an application property wins over all but braces."""
    of = message(
        {"UNIT": "x", "$both": "application", "$body.a.c": "from the property"},
        system={**JSON_BODY, "Origin": "sys", "both": "system", "body": "raw"},
        body={"a": {"b": [1, 2], "c": 3}},
    )
    assert value(condition, of) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("properties.reported.site", True),
        ("properties.reported.site.town", True),
        ("Properties.Reported.site.town", True),
        ("properties.reported.list", True),
        ("properties.reported.site.street", False),
        ("properties.reported.removed", False),
        ("properties.desired.site", False),
        ("tags.zone", True),
        ("properties.reported.$version", True),
    ],
)
def test_twin_change_includes(path: str, expected: bool) -> None:
    """Also objects and arrays are held; a null says that the property was removed."""
    changed = {"site": {"town": "x"}, "list": [1], "removed": None, "$version": 4}
    of = message(body={"properties": {"reported": changed}, "tags": {"zone": 1}})
    assert value(f"twin_change_includes({path})", of, source=TWIN) is expected


def test_twin_change_includes_of_an_unreadable_body() -> None:
    """Undefined, like any look into such a body."""
    assert value("twin_change_includes(tags.a)", message(system={}), source=TWIN) == "undefined"


@pytest.mark.parametrize(
    "condition",
    [
        "twin_change_includes()",
        "twin_change_includes(tags.a, tags.b)",
        "twin_change_includes('tags.a')",
        "twin_change_includes(tags)",
        "twin_change_includes(tags.)",
        "twin_change_includes(tags.a[0])",
        "twin_change_includes(properties.reported.1)",
        "twin_change_includes($body.a)",
        "twin_change_includes(upper(tags.a))",
    ],
)
def test_twin_paths_that_are_none(condition: str) -> None:
    """One bare path below reported, desired or tags, without brackets."""
    assert mistakes(condition, source=TWIN)


@pytest.mark.parametrize("source", ["/messages", "/messages/*", "/*"])
def test_twin_functions_need_a_twin_source(source: str) -> None:
    """Elsewhere there is no such function, and the answer says where it is."""
    (error,) = mistakes("twin_change_includes(tags.a)", source=source)
    assert "/twinChangeNotifications" in error.message
    assert mistakes("twin_change_includes(tags.a)", source="/twinchangenotifications/*") == []


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("5 + '6' = 9", [3, 9]),
        ("as_number(true) = true", [1, 17]),
        ("mess(true) = true", [1, 12]),
        ("'a' + 'b' + 'c' = 5", [5, 11, 17]),
        ("a AND 'b' AND true", [3]),
        ("not a", [1]),
        ("- a = 3", [1, 5]),
        ("$body..x = 1", [1, 10]),
        ("$body. = 1", [1, 8]),
        ("length(5) > 'x' OR nope()", [1, 11, 20]),
    ],
)
def test_mistakes_come_innermost_first(condition: str, columns: list[int]) -> None:
    """What failed counts as undefined, so the operator around it may complain too, as in the original."""
    found = mistakes(condition)
    assert [error.column for error in found][: len(columns)] == columns


def test_a_failed_chain_is_reported_once_for_each_operator() -> None:
    """Three wrong operators are three mistakes; the third says that it follows from the second."""
    found = mistakes("1 + 'a' - 'b'")
    assert len(found) == 2
    assert "nothing valid (see the other mistake)" in found[1].message


def test_compile_node_gives_the_type() -> None:
    """For tools that look at parts of a condition."""
    errors: list[CompileError] = []
    node = parse_condition("$body.a + 1", [])
    assert node is not None
    compiled = compile_node("$body.a + 1", node, twin_changes=False, errors=errors)
    assert (compiled.type, errors) == (Type.DYNAMIC, [])
    assert compiled.run(message(body={"a": 2})) == 3.0


def test_an_empty_condition_runs() -> None:
    """And is undefined."""
    run = compile_tree("", None, twin_changes=False, errors=[])
    assert repr(run(message())) == "UNDEFINED"


def test_the_number_of_reported_mistakes_is_bounded() -> None:
    """Fifty are enough to read."""
    assert len(mistakes(" AND ".join(["1 + 'a' = 2"] * 100))) == ERRORS_MAX
