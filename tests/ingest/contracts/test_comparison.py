"""What a new version means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_ingest.contracts import comparison
from fairlead_ingest.rows import contract_file
from fairlead_ingest.rows.contract import Contract

OLD = {
    "name": "t",
    "version": 1,
    "columns": {"a": "double", "b": {"type": "string", "enum": ["x", "y"]}, "n": {"type": "int", "minimum": 0}},
    "routes": [{"name": "r", "source": "/r", "columns": {"c": "int"}}],
}
ROUTE = {"name": "r", "source": "/r", "columns": {"c": "int"}}


def contract(**changes: Any) -> Contract:
    return contract_file.parse(json.dumps({**OLD, "version": 2, **changes}), "c.json")


def columns(**changes: Any) -> dict[str, Any]:
    found = {**OLD["columns"], **changes}  # type: ignore[dict-item]
    return {"columns": {name: column for name, column in found.items() if column}}


def test_the_same_contract_changes_nothing():
    old = contract(version=1)
    assert comparison.changes(old, old) == comparison.changes(old, contract()) == []


@pytest.mark.parametrize(
    ("changes", "kind", "column", "words"),
    [
        (columns(z="date"), "added", "z", "a new column, date"),
        (columns(a="float"), "refused", "a", "double becomes float"),
        (columns(a=None, A="double"), "refused", "A", "was spelled a"),
        (columns(a=None), "removed", "a", "no longer read"),
        (columns(a={"type": "double", "required": True}), "stricter", "a", "is required now"),
        (columns(z={"type": "date", "required": True}), "stricter", "z", "is new and required"),
        (columns(b={"type": "string", "enum": ["x"]}), "stricter", "b", "no longer allows y"),
        (columns(b={"type": "string", "enum": ["x", "y", "z"]}), "added", "b", "allows more values"),
        (columns(b="string"), "added", "b", "allows more values"),
        (columns(n={"type": "int", "minimum": 1}), "stricter", "n", "minimum 0 becomes 1"),
        (columns(n={"type": "int", "minimum": -1}), "added", "n", "minimum 0 becomes -1"),
        (columns(n={"type": "int", "minimum": 0, "maximum": 9}), "stricter", "n", "maximum none becomes 9"),
        (columns(n="int"), "added", "n", "minimum 0 becomes none"),
        ({"mode": "rescue"}, "added", "", "misfits become rows"),
        ({"decimals": "round"}, "added", "", "rounded"),
        ({"routes": []}, "removed", "c", "no longer read"),
        ({"routes": [{**ROUTE, "source": "/s"}]}, "stricter", "", "takes other messages"),
        ({"routes": [ROUTE, {"name": "s", "source": "/s"}]}, "added", "", "a new route"),
        (
            {"routes": [{**ROUTE, "columns": {"c": {"type": "int", "required": True}}}]},
            "stricter",
            "c",
            "is required now",
        ),
        ({"routes": [{**ROUTE, "columns": {"c": "bigint"}}]}, "refused", "c", "int becomes bigint"),
        ({"name": "u"}, "version", "", "the name changes from t to u"),
        ({"version": 1, **columns(z="date")}, "version", "", "the version is still 1"),
    ],
)
def test_each_change_is_named(changes, kind, column, words):
    found = comparison.changes(contract(version=1), contract(**changes))
    assert any((each.kind, each.column) == (kind, column) and words in each.what for each in found), found
    assert any(each.is_breaking for each in found) == (kind != "added"), found


def test_a_column_that_moves_into_a_route_is_lost_elsewhere():
    moved = contract(**columns(a=None), routes=[{**ROUTE, "columns": {"c": "int", "a": "double"}}])
    found = comparison.changes(contract(version=1), moved)
    assert [(each.kind, each.column, each.route) for each in found] == [("removed", "a", "")]


def test_less_freedom_for_bodies_breaks():
    rescue, evolve = contract(mode="rescue"), contract(mode="evolve")
    assert [each.kind for each in comparison.changes(rescue, contract(version=3))] == ["stricter"]
    assert [each.kind for each in comparison.changes(evolve, contract(version=3, mode="rescue"))] == ["removed"]
    assert [each.kind for each in comparison.changes(contract(decimals="round"), contract(version=3))] == ["stricter"]
    second = {"name": "s", "source": "/s"}
    turned = comparison.changes(contract(routes=[ROUTE, second]), contract(version=3, routes=[second, ROUTE]))
    assert ["another order" in each.what for each in turned] == [True]
    assert [each.kind for each in comparison.changes(contract(), contract(version=1))] == ["version"]
