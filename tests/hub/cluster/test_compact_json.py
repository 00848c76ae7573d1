"""Bodies kept by the ten thousand: the same truth in less room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.cluster import compact_json
from fairlead_hub.cluster.compact_json import pack, unpack

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(json_values)
def test_unpacked_is_what_was_packed(value: object) -> None:
    """Whatever the API may hold, order of keys included."""
    assert unpack(pack(value)) == value
    assert repr(unpack(pack(value))) == repr(value)


@given(json_values)
def test_an_outline_is_what_is_not_nested(value: object) -> None:
    """Of whatever; only dicts have one."""
    flat = {k: v for k, v in value.items() if not isinstance(v, dict | list)} if isinstance(value, dict) else {}
    assert repr(compact_json.outline(pack(value))) == repr(flat)


def test_what_is_unpacked_may_be_changed() -> None:
    """A body given out is fresh: changing it changes nothing that is kept."""
    packed = pack({"conditions": [{"type": "Synced"}]})
    unpack(packed)["conditions"][0]["type"] = "Stalled"
    assert unpack(packed) == {"conditions": [{"type": "Synced"}]}


def test_equal_parts_are_one_object() -> None:
    """The conditions of a thousand records written in one second are kept once."""
    first = pack({"state": "Synced", "conditions": [{"type": "Synced", "at": "12:00"}]})
    second = pack({"state": "Parked", "conditions": [{"type": "Synced", "at": "12:00"}]})
    assert first[0] is second[0] and first[2] is second[2]


def test_numbers_are_not_shared_with_truths() -> None:
    """Python holds them for equal; JSON does not."""
    for value in ([[0]], [[False]], [[1]], [[True]], {"a": {"b": 1}}, {"a": {"b": True}}):
        assert repr(unpack(pack(value))) == repr(value)


def test_what_is_shared_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full tables are forgotten, and what was packed before stays right."""
    monkeypatch.setattr(compact_json, "SHARED_MAX", 8)
    bodies = [{f"key{n}": {f"inner{n}": n}} for n in range(100)]
    assert [unpack(each) for each in [pack(body) for body in bodies]] == bodies
    assert len(compact_json._shared) <= 8 and len(compact_json._shapes) <= 8
