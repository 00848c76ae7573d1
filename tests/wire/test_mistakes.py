"""Everything wrong with a document is told at once, each with its key and the nearest right one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead_wire.mistakes import Mistake, explain, find, nearest, shown


class Store(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_bytes: int = 100
    evict: Literal["never", "less-urgent"] = "never"

    def __post_init__(self) -> None:
        if self.max_bytes < 10:
            raise ValueError(f"max_bytes: must be at least 10, is {self.max_bytes}")


class Route(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    route: str
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] = 5


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    nodes_max: Annotated[int, msgspec.Meta(ge=1, description="how many")] = 1
    trigger: str | float = 1
    low: float = 0
    high: float = 10
    ca: str | None = None
    topics: list[str] = []
    routes: dict[str, str | Route] = {}
    store: Store = Store()
    security: Literal["mtls", "insecure"] = "mtls"
    on: bool = False

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ValueError("high: must not be below low")
        if self.nodes_max > 5:
            raise ValueError("nodes_max: must be at most 5\ntrigger: because of that")
        if self.on and not self.ca:
            raise ValueError("ca: required with on = true")


def told(data: Any, model: type[msgspec.Struct] = Model) -> list[str]:
    return [str(mistake) for mistake in find(data, model)]


def test_nothing_is_wrong_with_a_good_document() -> None:
    """As the decoder says."""
    assert told({"node": "a", "trigger": 3, "routes": {"r": "x", "s": {"route": "y"}}, "low": 1}) == []


def test_all_mistakes_at_once() -> None:
    """One bad key hides no other, in whatever table."""
    found = told(
        {
            "nodes_max": "many",
            "trigger": [],
            "topics": ["a", 2],
            "store": {"max_bytez": 5, "evict": "allways"},
            "securty": "mtls",
            "max_bytes": 5,
        }
    )
    assert found == [
        "node: required, but not set",
        "nodes_max: Expected `int`, is 'many'",
        "trigger: Expected `float | str`, is []",
        "topics[1]: Expected `str`, is 2",
        "store.evict: one of less-urgent, never, is 'allways'",
        "store.max_bytez: unknown key; did you mean store.max_bytes?",
        "securty: unknown key; did you mean security?",
        "max_bytes: unknown key; did you mean store.max_bytes?",
    ]


def test_limits_and_keys_of_unions_are_kept() -> None:
    """The route's name is in the path, which the decoder alone loses."""
    found = told({"node": "a", "nodes_max": 0, "routes": {"alarms": {"route": "x", "priority": 12}, "b": 3}})
    assert found == [
        "nodes_max: Expected `int` >= 1, is 0",
        "routes.alarms.priority: Expected `int` <= 9, is 12",
        "routes.b: Expected `str | object`, is 3",
    ]


def test_what_the_model_itself_says_is_told_to_the_end() -> None:
    """Its first reason would hide the others; several may also come a line each."""
    found = told({"node": "a", "low": 5, "high": 1, "nodes_max": 7, "on": True, "store": {"max_bytes": 1}, "typo": 1})
    assert found == [
        "store.max_bytes: must be at least 10, is 1",
        "typo: unknown key",
        "high: must not be below low",
        "nodes_max: must be at most 5",
        "trigger: because of that",
        "ca: required with on = true",
    ]


def test_a_bad_switch_is_not_followed_up() -> None:
    """What depends on it would be judged about a document nobody wrote."""
    assert told({"node": "a", "security": "mtsl", "nodes_max": 7}) == [
        "security: one of insecure, mtls, is 'mtsl'; did you mean mtls?"
    ]


def test_secrets_in_addresses_are_not_quoted() -> None:
    """An error is copied into tickets."""
    assert "pw" not in shown("wss://user:pw@hub") and len(shown("x" * 500)) < 100
    assert shown(5) == "5"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Expected `int`, got `str` - at `$.a.b`", ("a.b", "Expected `int`, got `str`")),
        ("Object contains unknown field `x` - at `$.a`", ("a.x", "unknown key")),
        ("Object missing required field `x`", ("x", "required, but not set")),
        ("Object contains unknown field ``` - at `$.a`", ("a.`", "unknown key")),
        ("key: is bad - at `$.a`", ("a.key", "is bad")),
        ("no key at all", ("", "no key at all")),
    ],
)
def test_a_decoders_message_is_read(text: str, expected: tuple[str, str]) -> None:
    """Path and reason apart."""
    assert explain(text) == expected


def test_nearest_is_near_or_nothing() -> None:
    """A far-fetched guess would mislead."""
    assert nearest("priorty", ["priority", "route"]) == "priority"
    assert nearest("x", ["priority", "route"]) is None
    assert str(Mistake("", "all of it")) == "all of it"


def test_depth_is_bounded() -> None:
    """A document that is nothing but brackets."""

    class Deep(msgspec.Struct, forbid_unknown_fields=True):
        inner: dict[str, Any] = {}

    data: dict[str, Any] = {}
    for _ in range(5000):
        data = {"inner": data}
    find(data, Deep)


TABLE_KEYS = st.sampled_from(["node", "store", "route", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TABLE_KEYS, inner),
    max_leaves=8,
)
KEYS = st.sampled_from([*Model.__struct_fields__, "typo"])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(KEYS, JSON, max_size=6))
def test_it_finds_something_exactly_where_the_decoder_refuses(data: dict[str, Any]) -> None:
    """The two readings of a document agree, and neither raises anything else."""
    try:
        msgspec.convert(data, Model, strict=True)
    except (msgspec.ValidationError, ValueError):
        assert find(data, Model)
    else:
        assert find(data, Model) == ()
