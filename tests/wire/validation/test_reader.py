"""A struct and a model of the same keys say the same about the same document, and everything at once.

The agent reads structs and the cluster's programs models; people who write both kinds of files see one kind of answer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Meta
from pydantic import Field

from fairlead_wire.validation import mistakes
from fairlead_wire.validation.mistakes import Mistake, wrong
from fairlead_wire.validation.model import MODELS, Model
from fairlead_wire.validation.reader import STRUCTS


def check_store(store: Any) -> None:
    if store.max_bytes < 10:
        raise wrong("max_bytes", f"must be at least 10, is {store.max_bytes}")


def check(model: Any) -> None:
    if model.high < model.low:
        raise wrong("high", "must not be below low")
    if model.nodes_max > 5:
        raise mistakes.Wrong(Mistake("nodes_max", "must be at most 5"), Mistake("trigger", "because of that"))
    if model.on and not model.ca:
        raise wrong("ca", "required with on = true")


class StoreStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_bytes: int = 100
    evict: Literal["never", "less-urgent"] = "never"

    def __post_init__(self) -> None:
        check_store(self)


class RouteStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    route: str
    priority: Annotated[int, Meta(ge=0, le=9)] = 5


class Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    nodes_max: Annotated[int, Meta(ge=1, description="how many")] = 1
    trigger: str | float = 1
    low: float = 0
    high: float = 10
    ca: str | None = None
    topics: list[str] = []
    routes: dict[str, str | RouteStruct] = {}
    store: StoreStruct = StoreStruct()
    security: Literal["mtls", "insecure"] = "mtls"
    on: bool = False

    def __post_init__(self) -> None:
        check(self)


class StoreModel(Model):
    max_bytes: int = 100
    evict: Literal["never", "less-urgent"] = "never"

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        check_store(self)
        return self


class RouteModel(Model):
    route: str
    priority: Annotated[int, Field(ge=0, le=9)] = 5


class AModel(Model):
    node: str
    nodes_max: Annotated[int, Field(ge=1, description="how many")] = 1
    trigger: str | float = 1
    low: float = 0
    high: float = 10
    ca: str | None = None
    topics: list[str] = Field(default=[])
    routes: dict[str, str | RouteModel] = Field(default={})
    store: StoreModel = StoreModel()
    security: Literal["mtls", "insecure"] = "mtls"
    on: bool = False

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        check(self)
        return self


KINDS = pytest.mark.parametrize(("reader", "model"), [(STRUCTS, Struct), (MODELS, AModel)])
KEYS = Struct.__struct_fields__


@KINDS
@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"node": "a", "trigger": 3, "routes": {"r": "x", "s": {"route": "y"}}, "low": 1}, []),
        (
            {
                "nodes_max": "many",
                "trigger": [],
                "topics": ["a", 2],
                "store": {"max_bytez": 5, "evict": "allways"},
                "securty": "mtls",
                "max_bytes": 5,
            },
            [
                "node: required, but not set",
                "nodes_max: must be a whole number of at least 1, is 'many'",
                "trigger: must be text or a number, is []",
                "topics[1]: must be text, is 2",
                "store.evict: must be one of never, less-urgent, is 'allways'",
                "store.max_bytez: unknown key; did you mean store.max_bytes?",
                "securty: unknown key; did you mean security?",
                "max_bytes: unknown key; did you mean store.max_bytes?",
            ],
        ),
        (
            {
                "node": "a",
                "nodes_max": 0,
                "routes": {"alarms": {"route": "x", "priority": 12}, "b": 3, "c": {"rote": ""}},
            },
            [
                "nodes_max: must be a whole number of at least 1, is 0",
                "routes.alarms.priority: must be a whole number from 0 to 9, is 12",
                "routes.b: must be text or keys and values, is 3",
                "routes.c.route: required, but not set",
                "routes.c.rote: unknown key; did you mean routes.c.route?",
            ],
        ),
        (
            {"node": "a", "low": 5, "high": 1, "nodes_max": 7, "on": True, "store": {"max_bytes": 1}, "typo": 1},
            [
                "store.max_bytes: must be at least 10, is 1",
                "typo: unknown key",
                "high: must not be below low",
                "nodes_max: must be at most 5",
                "trigger: because of that",
                "ca: required with on = true",
            ],
        ),
        (
            {"node": "a", "security": "mtsl", "nodes_max": 7},
            [
                "security: must be one of mtls, insecure, is 'mtsl'; did you mean mtls?",
                "nodes_max: must be at most 5",
                "trigger: because of that",
            ],
        ),
        ({"node": "a", "on": "yes"}, ["on: must be true or false, is 'yes'"]),
        (
            {"node": "a", "store": {"evict": "x", "max_bytes": 1}},
            ["store.evict: must be one of never, less-urgent, is 'x'", "store.max_bytes: must be at least 10, is 1"],
        ),
        (
            {"node": "a", "topics": [1], "ca": 3, "security": 1, "store": 2},
            [
                "topics[0]: must be text, is 1",
                "ca: must be text, is 3",
                "security: must be one of mtls, insecure, is 1",
                "store: must be keys and values, is 2",
            ],
        ),
        ({"node": "a", "`": 1, "": 2}, ["`: unknown key", "unknown key"]),
        (3, ["must be keys and values, is 3"]),
    ],
)
def test_everything_at_once_in_the_same_words(reader: Any, model: Any, document: Any, said: list[str]) -> None:
    """One bad key hides no other, in whatever table; keys of unions are kept; checks over several keys come too."""
    assert sorted(map(str, reader.find(document, model))) == sorted(said)


@KINDS
def test_a_value_by_itself(reader: Any, model: Any) -> None:
    assert reader.find("x", str) == () == reader.find({"node": "x"}, model)
    assert reader.find("x", list[str]) == (Mistake("", "must be a list, is 'x'"),)
    assert reader.find([1], list[str]) == (Mistake("[0]", "must be text, is 1"),)
    assert reader.find({"node": 1}, model) == (Mistake("node", "must be text, is 1"),)


@KINDS
def test_a_model_is_read_key_by_key(reader: Any, model: Any) -> None:
    assert reader.is_model(model) and not reader.is_model(str) and not reader.is_model("x")
    assert [each.name for each in reader.fields(model)] == list(KEYS)
    assert {each.name: each.type for each in reader.fields(model)}["trigger"] == (str | float)
    assert reader.read({"node": "a"}, model).node == "a"
    with pytest.raises(ValueError):
        reader.read({}, model)


@KINDS
def test_depth_is_bounded(reader: Any, model: Any) -> None:
    data: Any = "x"
    for _ in range(5000):
        data = {"route": data}
    assert reader.find({"node": "a", "routes": {"r": data}}, model)


TABLE_KEYS = st.sampled_from(["node", "store", "route", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TABLE_KEYS, inner),
    max_leaves=8,
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from([*KEYS, "typo"]), JSON, max_size=6))
def test_something_is_found_exactly_where_the_document_is_refused(data: dict[str, Any]) -> None:
    """Both libraries agree with each other, and with what is said; neither raises anything else."""
    keys = []
    for reader, model in ((STRUCTS, Struct), (MODELS, AModel)):
        found = reader.find(data, model)
        try:
            reader.read(data, model)
        except ValueError:
            assert found
        else:
            assert found == ()
        keys.append({each.key for each in found})
    assert keys[0] == keys[1]
