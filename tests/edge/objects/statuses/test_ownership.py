"""Which program owns which field: applied, merged, taken over."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.objects.statuses import ownership
from fairlead_edge.objects.statuses.ownership import Share

KEYS = st.sampled_from("abc")
LEAVES = st.none() | st.integers(0, 3) | st.booleans() | st.lists(st.integers(0, 2), max_size=2)
DOCUMENTS = st.dictionaries(KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3)))


def applied(*parts: tuple[str, dict[str, Any]]) -> dict[str, Share]:
    shares: dict[str, Share] = {}
    for manager, document in parts:
        shares, conflicts = ownership.apply(shares, manager, document)
        assert not conflicts
    return shares


def test_programs_share_a_status() -> None:
    shares = applied(("a", {"x": 1, "m": {"k": 1}}), ("b", {"m": {"j": 2}, "x": 1}))
    assert ownership.union(shares) == {"x": 1, "m": {"k": 1, "j": 2}}


def test_what_is_not_applied_again_goes() -> None:
    shares, _ = ownership.apply(applied(("a", {"x": 1, "y": 2})), "a", {"y": 2})
    assert ownership.union(shares) == {"y": 2}


@pytest.mark.parametrize(
    ("document", "field"),
    [({"x": 2}, ".status.x"), ({"x": True}, ".status.x"), ({"x": {"y": 1}}, ".status.x"), ({"m": 5}, ".status.m")],
)
def test_another_value_is_a_conflict(document: dict[str, Any], field: str) -> None:
    shares, conflicts = ownership.apply(applied(("a", {"x": 1, "m": {"k": 1}})), "b", document)
    assert [(each.manager, each.field) for each in conflicts] == [("a", field)]
    union = ownership.union(shares)
    assert {**union, **document} == union  # as it is once it is forced


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        ({"x": None}, {"m": {"k": 1}}),
        ({"m": {"k": None}}, {"x": 1, "m": {}}),
        ({"m": {"j": 2}}, {"x": 1, "m": {"k": 1, "j": 2}}),
        ({"m": 7}, {"x": 1, "m": 7}),
        ({"x": {"y": {}}}, {"x": {"y": {}}, "m": {"k": 1}}),
        ({"m": {}}, {"x": 1, "m": {"k": 1}}),
        (None, {}),
    ],
)
def test_a_merge_patch_takes_what_it_names(patch: dict[str, Any] | None, after: dict[str, Any]) -> None:
    assert ownership.union(ownership.merge(applied(("a", {"x": 1, "m": {"k": 1}})), "b", patch)) == after


def rfc_7386(target: Any, patch: Any) -> Any:
    """As the standard writes it."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = rfc_7386(found.get(key), value)
    return found


def without_empty(value: Any) -> Any:
    """An object whose last field went, and one that was empty: the same for who reads a status."""
    if not isinstance(value, dict):
        return value
    return {key: inner for key, each in value.items() if (inner := without_empty(each)) != {}}


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), DOCUMENTS), max_size=5))
def test_merge_patches_of_any_programs_are_those_of_the_standard(patches: list[tuple[str, dict[str, Any]]]) -> None:
    shares: dict[str, Share] = {}
    expected: Any = {}
    for manager, patch in patches:
        shares = ownership.merge(shares, manager, patch)
        expected = rfc_7386(expected, patch)
    found = ownership.union(shares)
    assert msgspec.json.encode(without_empty(found), order="sorted") == msgspec.json.encode(
        without_empty(expected), order="sorted"
    )


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), DOCUMENTS), max_size=5))
def test_who_forces_gets_what_it_applied(steps: list[tuple[str, dict[str, Any]]]) -> None:
    shares: dict[str, Share] = {}
    for manager, document in steps:
        shares, _ = ownership.apply(shares, manager, document)
        again, conflicts = ownership.apply(shares, manager, document)
        assert not conflicts and ownership.union(again) == ownership.union(shares)
