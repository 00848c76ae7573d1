"""Keys keep neighbours apart and numbers in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.topic import TopicGeneration

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)


def topic(namespace: str, name: str, generation: int) -> TopicGeneration:
    return TopicGeneration(namespace=namespace, name=name, generation=generation, ttl_seconds=1)


@given(a=st.tuples(NAMES, NAMES), b=st.tuples(NAMES, NAMES))
def test_no_topics_rows_lie_within_anothers(a: tuple[str, str], b: tuple[str, str]) -> None:
    """Prefixes of different topics never contain each other."""
    first, second = keys.table(keys.MESSAGE, topic(*a, 1)), keys.table(keys.MESSAGE, topic(*b, 1))
    assert (a == b) == second.startswith(first)


@given(NAMES, NAMES)
def test_names_come_back_out_of_a_metadata_key(namespace: str, name: str) -> None:
    """Listing needs nothing but keys."""
    assert keys.metadata_names(keys.metadata(namespace, name)) == (namespace, name)


@pytest.mark.parametrize(
    ("data", "present", "dead"),
    [(3, 5, True), (3, -3, True), (6, 5, False), (6, 6, False), (6, -5, False), (2, -3, True), (3, 3, False)],
)
def test_which_generations_are_dead(data: int, present: int, dead: bool) -> None:
    """Those below the present one, and the present one itself once it is deleted (negative)."""
    low, high = keys.dead_generations(keys.MESSAGE, topic("n", "t", present))
    assert (low <= keys.table(keys.MESSAGE, topic("n", "t", data)) + bytes(10) < high) is dead


def test_above_is_past_every_key_with_the_prefix() -> None:
    """Also after 0xff."""
    assert keys.above(b"a\xff") == b"b\x00"
    assert keys.above(b"a") == b"b"
