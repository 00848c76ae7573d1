"""Which topics a pattern is about."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.server import access

LETTERS = st.text("ab*", max_size=8)


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("default/orders", "default/orders", True),
        ("default/orders", "default/Orders", False),
        ("default/*", "default/orders", True),
        ("default/*", "default2/orders", False),
        ("*/orders-*", "shop/orders-7", True),
        ("*/orders-*", "shop/order", False),
        ("*", "system/events", True),
        ("*/*", "system/events", True),
        ("a*/b", "a/b", True),
        ("default/a*b*c", "default/abc", True),
        ("default/a*b*c", "default/acb", False),
        ("default/ab*ba", "default/aba", False),
    ],
)
def test_a_star_is_any_text_of_one_part(pattern: str, topic: str, expected: bool) -> None:
    """All other characters are themselves, upper and lower case differ, and nothing overlaps."""
    namespace, _, name = topic.partition("/")
    assert access.parse_glob(pattern).matches(namespace, name) is expected


def test_no_part_reaches_over_the_slash() -> None:
    """A name that holds a slash (encoded in a path) matches by its own half alone."""
    assert not access.parse_glob("default/x").matches("default/x", "")
    assert not access.parse_glob("default/x").matches("", "default/x")
    assert not access.parse_glob("a/b").matches("a/b/a", "b")


@given(LETTERS, st.text("ab", max_size=12))
def test_it_matches_as_the_regular_expression_would(pattern: str, text: str) -> None:
    """Found out in linear time."""
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert access.part_matches(pattern, text) is expected


def test_many_stars_cost_no_more_than_the_name_is_long() -> None:
    """A regular expression of this kind would take for ever."""
    assert not access.part_matches("*a" * 100 + "*b", "a" * 100_000)


@pytest.mark.parametrize("text", ["", "default", "/x", "default/", "a/b/c", "a b/c", "a/../b", "!", "!!a/b", "a/b\n"])
def test_what_is_no_pattern_is_refused_with_what_would_be_one(text: str) -> None:
    """Not taken for one that matches nothing."""
    with pytest.raises(ValueError, match="namespace/name"):
        access.parse_glob(text)
