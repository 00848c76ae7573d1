"""YAML without a library: what a YAML reader reads is what was written."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlead_cli.text import yaml_text

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)


@pytest.mark.slow
@given(VALUES)
def test_it_reads_back(value: object) -> None:
    assert yaml.safe_load(yaml_text.text_of(value)) == value


@pytest.mark.parametrize(
    "word", ["yes", "No", "null", "~", "1", "1e3", "0x1", "2026-11-22", "a: b", "- a", "", " a", "#"]
)
def test_words_that_yaml_reads_otherwise_stay_texts(word: str) -> None:
    assert yaml.safe_load(yaml_text.text_of({word: [word]})) == {word: [word]}


def test_it_looks_like_kubectls() -> None:
    value = {"kind": "List", "items": [{"metadata": {"name": "edge-1"}, "ok": True, "n": []}]}
    assert yaml_text.text_of(value) == ('kind: List\nitems:\n- metadata:\n    name: edge-1\n  ok: true\n  "n": []\n')
