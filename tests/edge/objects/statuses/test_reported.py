"""One object's status through patches and answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.edges.held import config_map, held

from fairlead_edge.objects.statuses import reported
from fairlead_edge.objects.statuses.patch import PatchRefused, StatusPatch
from fairlead_edge.objects.statuses.reported import EdgeReportedStatus, Share
from fairlead_wire import message

HELD = held(config_map("a"))


def after(kept: EdgeReportedStatus | None, status: Any, *, sequence: int = 1, **more: Any) -> EdgeReportedStatus | None:
    asked = StatusPatch(**{"operation": "Update", "manager": "me", "status": status, **more})
    return reported.patched(HELD, kept, asked, sequence=sequence, now=5.0)


def first(status: Any, **more: Any) -> EdgeReportedStatus:
    found = after(None, status, **more)
    assert found is not None
    return found


def test_a_patch_waits_until_it_is_answered() -> None:
    kept = first({"a": 1})
    assert (kept.state, kept.force, kept.status) == ("waiting", "cluster", b'{"a":1}')
    assert reported.settled(kept, 1).described == "written"
    assert reported.settled(kept, 1, code="invalid", reason="a: text").described == "refused: invalid: a: text"
    assert reported.settled(kept, 2) is kept  # about another one


def test_the_same_again_changes_nothing_unless_it_was_refused() -> None:
    kept = first({"a": 1})
    assert after(kept, {"a": 1}, sequence=2) is None
    assert after(reported.settled(kept, 1), {"a": 1}, sequence=2) is None
    again = after(reported.settled(kept, 1, code="forbidden"), {"a": 1}, sequence=2)
    assert again is not None and (again.state, again.sequence) == ("waiting", 2)
    assert after(None, None) is None


def test_what_still_waits_keeps_its_force() -> None:
    forced = first({"a": 1}, operation="Apply", force=True)
    assert forced.force == "all"
    newer = after(forced, {"b": 1}, operation="Apply", manager="other", sequence=2)
    assert newer is not None and newer.force == "all" and newer.status == b'{"a":1,"b":1}'
    later = after(reported.settled(forced, 1), {"b": 1}, operation="Apply", manager="other", sequence=2)
    assert later is not None and later.force == ""


def test_a_conflict_names_who_owns_the_field() -> None:
    kept = first({"a": 1}, operation="Apply")
    with pytest.raises(PatchRefused) as caught:
        after(kept, {"a": 2}, operation="Apply", manager="other")
    assert caught.value.status == 409 and '"me": .status.a' in str(caught.value)
    assert caught.value.details["causes"][0]["field"] == ".status.a"


def test_a_status_of_another_uid_does_not_count() -> None:
    kept = EdgeReportedStatus(uid="old", sequence=1, state="waiting", at=0.0, shares=first({"a": 1}).shares)
    found = after(kept, {"b": 1})
    assert found is not None and found.status == b'{"b":1}'


def test_limits() -> None:
    with pytest.raises(PatchRefused) as caught:
        first({"a": "x" * message.STATUS_BYTES_MAX})
    assert caught.value.status == 413
    kept: EdgeReportedStatus | None = None
    for number in range(reported.MANAGERS_MAX):
        kept = after(kept, {f"k{number}": 1}, manager=f"m{number}")
    with pytest.raises(PatchRefused) as caught:
        after(kept, {"more": 1}, manager="one-more")
    assert caught.value.status == 422


# ---- which program owns which field: applied, merged, taken over ----------------------------------


KEYS = st.sampled_from("abc")
LEAVES = st.none() | st.integers(0, 3) | st.booleans() | st.lists(st.integers(0, 2), max_size=2)
DOCUMENTS = st.dictionaries(KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3)))


def applied(*parts: tuple[str, dict[str, Any]]) -> dict[str, Share]:
    shares: dict[str, Share] = {}
    for manager, document in parts:
        shares, conflicts = reported.apply(shares, manager, document)
        assert not conflicts
    return shares


def test_programs_share_a_status() -> None:
    shares = applied(("a", {"x": 1, "m": {"k": 1}}), ("b", {"m": {"j": 2}, "x": 1}))
    assert reported.union(shares) == {"x": 1, "m": {"k": 1, "j": 2}}


def test_what_is_not_applied_again_goes() -> None:
    shares, _ = reported.apply(applied(("a", {"x": 1, "y": 2})), "a", {"y": 2})
    assert reported.union(shares) == {"y": 2}


@pytest.mark.parametrize(
    ("document", "field"),
    [({"x": 2}, ".status.x"), ({"x": True}, ".status.x"), ({"x": {"y": 1}}, ".status.x"), ({"m": 5}, ".status.m")],
)
def test_another_value_is_a_conflict(document: dict[str, Any], field: str) -> None:
    shares, conflicts = reported.apply(applied(("a", {"x": 1, "m": {"k": 1}})), "b", document)
    assert [(each.manager, each.field) for each in conflicts] == [("a", field)]
    union = reported.union(shares)
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
    assert reported.union(reported.merge(applied(("a", {"x": 1, "m": {"k": 1}})), "b", patch)) == after


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


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), DOCUMENTS), max_size=5))
def test_merge_patches_of_any_programs_are_those_of_the_standard(patches: list[tuple[str, dict[str, Any]]]) -> None:
    shares: dict[str, Share] = {}
    expected: Any = {}
    for manager, patch in patches:
        shares = reported.merge(shares, manager, patch)
        expected = rfc_7386(expected, patch)
    found = reported.union(shares)
    assert msgspec.json.encode(without_empty(found), order="sorted") == msgspec.json.encode(
        without_empty(expected), order="sorted"
    )


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), DOCUMENTS), max_size=5))
def test_who_forces_gets_what_it_applied(steps: list[tuple[str, dict[str, Any]]]) -> None:
    shares: dict[str, Share] = {}
    for manager, document in steps:
        shares, _ = reported.apply(shares, manager, document)
        again, conflicts = reported.apply(shares, manager, document)
        assert not conflicts and reported.union(again) == reported.union(shares)
