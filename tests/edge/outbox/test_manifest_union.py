"""The union of several objects: who owns a route name, and what every object says of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.outbox.manifest import Manifest, merge, parse

UP = "FROM /* INTO $upstream"
NEW = {"route": UP}


def document(routes: Any, *, created: str = "", ttl: int = 20) -> dict[str, Any]:
    """An EdgeRoutes object with these routes."""
    metadata = {"creationTimestamp": created} if created else {}
    stored = {"timeToLiveSecs": ttl}
    spec = {"schemaVersion": "1.1", "routes": routes, "storeAndForwardConfiguration": stored}
    return {"kind": "EdgeRoutes", "metadata": metadata, "spec": spec}


def union(**objects: dict[str, Any]) -> Manifest:
    return merge([(name, parse(each)) for name, each in objects.items()])


def owners(merged: Manifest) -> list[tuple[str, str]]:
    return [(route.name, route.origin) for route in merged.routes]


def said(merged: Manifest) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Errors and warnings, each as (object, text)."""
    return (
        [(each.origin, each.message) for each in merged.quarantined],
        [(each.origin, each.message) for each in merged.warnings],
    )


def test_merge_is_a_union() -> None:
    merged = union(b=document({"two": UP}, ttl=30), a=document({"one": UP}, ttl=10))
    assert [(route.name, route.ttl_seconds, route.origin) for route in merged.routes] == [
        ("one", 10, "a"),
        ("two", 30, "b"),
    ]
    assert merged.quarantined == merged.warnings == () and merged.defaults == {"a": 10, "b": 30}


def test_the_object_form_wins_whatever_the_age() -> None:
    merged = union(
        a=document({"r": UP, "s": UP}, created="2026-01-01T00:00:00Z"),
        b=document({"r": NEW}, created="2026-01-02T00:00:00Z"),
    )
    assert owners(merged) == [("s", "a"), ("r", "b")]
    assert said(merged) == (
        [("a", "EdgeRoutes b also has a route r, in object form, which takes precedence; rename this one")],
        [("b", "EdgeRoutes a also has a route r; this one, in object form, takes precedence; rename the other one")],
    )


@pytest.mark.parametrize("form", [UP, NEW], ids=["text", "object"])
def test_of_one_form_the_older_object_owns_the_name(form: Any) -> None:
    merged = union(
        a=document({"r": form}, created="2026-01-02T00:00:00Z"),
        z=document({"r": form, "s": UP}, created="2026-01-01T00:00:00Z"),
    )
    assert owners(merged) == [("r", "z"), ("s", "z")]
    [(origin, error)], [(owner, warning)] = said(merged)
    assert (origin, owner) == ("a", "z") and "a route r, created first, which takes precedence" in error
    assert "EdgeRoutes a" in warning and "this one, created first, takes precedence" in warning


@pytest.mark.parametrize("created", ["", "2026-01-01T00:00:00Z"])
def test_objects_of_one_second_are_told_apart_by_name(created: str) -> None:
    merged = union(b=document({"r": UP}, created=created), a=document({"r": UP}, created=created))
    assert owners(merged) == [("r", "a")]
    [(origin, error)], [(owner, warning)] = said(merged)
    assert (origin, owner) == ("b", "a") and "created at the same time and first by name, which takes" in error
    assert "EdgeRoutes b" in warning


def test_an_object_of_unknown_age_is_the_youngest() -> None:
    merged = union(a=document({"r": UP}), b=document({"r": UP}, created="2026-01-01T00:00:00Z"))
    assert owners(merged) == [("r", "b")]


def test_a_bad_route_owns_nothing() -> None:
    """The valid route of that name runs, whichever object sorts first; both objects report it."""
    for bad, good in (("a", "b"), ("b", "a")):
        merged = union(**{bad: document({"r": {"route": "nonsense"}, "s": UP}), good: document({"r": UP})})
        assert sorted(owners(merged)) == [("r", good), ("s", bad)]
        [error] = merged.quarantined
        assert (error.origin, error.line) == (bad, 1) and f"in EdgeRoutes {good} runs" in error.message
        [warning] = merged.warnings
        assert (warning.name, warning.origin) == (
            "r",
            good,
        ) and f"EdgeRoutes {bad} also has a route r, which is invalid" in warning.message


def test_routes_that_are_bad_everywhere_run_nowhere() -> None:
    merged = union(a=document({"r": "nonsense"}), b=document({"r": {"route": UP, "priority": 12}}))
    assert merged.routes == () and merged.warnings == ()
    assert [(error.origin, error.message.partition(":")[0]) for error in merged.quarantined][1] == ("b", "priority")


OBJECTS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.tuples(
        st.dictionaries(st.sampled_from(["r", "s"]), st.sampled_from([UP, NEW, "FRM", {"route": UP, "priority": 12}])),
        st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
    ),
)


@pytest.mark.slow
@given(OBJECTS, st.randoms(use_true_random=False))
def test_every_name_has_one_owner_in_any_order_and_all_others_say_so(objects: Any, random: Any) -> None:
    parsed = [(name, parse(document(routes, created=created))) for name, (routes, created) in objects.items()]
    merged = merge(parsed)
    random.shuffle(parsed)
    assert merge(parsed) == merged
    names = [route.name for route in merged.routes]
    assert len(names) == len(set(names))
    for name, (routes, _) in objects.items():
        runs = {route.name for route in merged.routes if route.origin == name}
        errors = {each.name for each in merged.quarantined if each.origin == name}
        assert runs | errors == set(routes) and not runs & errors
        for route in runs:
            others = [other for other, (table, _) in objects.items() if other != name and route in table]
            warnings = " ".join(each.message for each in merged.warnings if (each.origin, each.name) == (name, route))
            assert all(f"EdgeRoutes {other}" in warnings or f", {other}" in warnings for other in others)


def test_a_route_that_another_object_took_the_name_of_is_refused_with_its_source() -> None:
    merged = union(
        a=document({"r": "FROM /messages/modules/a INTO $upstream", "bad": "FROM /messages/modules/x WHERE INTO"}),
        b=document({"r": "FROM /messages/modules/b INTO $upstream"}),
    )
    assert [(each.name, each.origin, each.source.prefix, each.condition is None) for each in merged.refused] == [
        ("bad", "a", "/messages/modules/x/", True),
        ("r", "b", "/messages/modules/b/", False),
    ]
