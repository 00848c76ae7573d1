"""Which messages a route takes."""

from __future__ import annotations

import pytest

from fairlead_ingest.rows.contract import REMEMBERED_MAX, SHARED, RowRoute, RowRouter, matches

DOORS = RowRoute(name="doors", source="/messages/modules/door/*")
NORTH = RowRoute(name="north", topic="north/*")
LOUD = RowRoute(name="loud", properties={"level": "high", "kind": "alarm"})


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("*", "", True),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("*/door/*", "/m/door/o", True),
        ("*b*b*", "b", False),
        ("[a]?", "a1", False),
    ],
)
def test_a_star_stands_for_anything(pattern: str, text: str, expected: bool) -> None:
    """And nothing else has a meaning."""
    assert matches(pattern, text) is expected


def test_a_long_source_costs_no_time() -> None:
    """However many stars a pattern has."""

    assert not matches("*a" * 50 + "*b", "a" * 1_000_000)


def test_the_first_route_that_takes_a_message_has_it() -> None:
    """What none takes is shared."""
    router = RowRouter([DOORS, NORTH])
    asked = [("north/t", "/messages/modules/door/o"), ("north/t", None), ("south/t", "/messages/modules/engine/o")]
    assert [router.route(topic, source, None) for topic, source in asked] == [0, 1, SHARED]
    assert [router.route(topic, source, None) for topic, source in asked] == [0, 1, SHARED]


def test_all_properties_of_a_route_must_be_as_it_says() -> None:
    """Those that are no text are none."""
    router = RowRouter([LOUD])
    texts = [
        '{"level": "high", "kind": "alarm", "more": 1}',
        '{"level": "high"}',
        '{"level": "high", "kind": 5}',
        None,
        "[",
    ]
    assert [router.route("a/t", None, text) for text in texts] == [0, *[SHARED] * 4]


def test_sources_without_end_are_not_remembered() -> None:
    """Devices write them."""
    router = RowRouter([DOORS])
    for number in range(REMEMBERED_MAX + 10):
        assert router.route("a/t", f"/{number}", None) == SHARED
    assert len(router._remembered) <= REMEMBERED_MAX
