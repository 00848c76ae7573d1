"""JoinTokens as they are read and found again."""

from typing import Any

import msgspec
import pytest

from fairlead_hub.cluster.custom_resources import identity_specs
from fairlead_hub.identity import join_tokens
from fairlead_hub.identity.join_tokens import JoinTokens, UnreadableToken, Use

SPEC: dict[str, Any] = {"secretSHA256": "a" * 64, "node": "edge-1", "expires": "2030-01-01T00:00:00Z"}
USE = Use(node="edge-1", key_sha256="k", serial="4d", time=1000, not_before=700, not_after=9000, node_uid="u")


def test_a_token_is_read_with_its_uses():
    """As it was written."""
    status = {"pins": ["p"], "url": "wss://hub", "uses": [USE.document()]}
    token = join_tokens.read("id", "7", SPEC, status)
    assert (token.node, token.pattern, token.uses_max, token.replace) == ("edge-1", "", 1, False)
    assert (token.version, token.pins, token.url, token.uses) == ("7", ("p",), "wss://hub", (USE,))
    assert token.use_of("edge-1", "k") == USE and token.use_of("edge-1", "other") is None
    assert "nodeUID" not in Use(node="n", key_sha256="k", serial="1", time=1, not_before=1, not_after=2).document()


@pytest.mark.parametrize(
    "change",
    [
        {"secretSHA256": "short"},
        {"node": ""},
        {"pattern": "shop-*"},
        {"expires": "tomorrow"},
        {"expires": None},
        {"uses": 0},
        {"uses": True},
        {"uses": "many"},
        {"node": None, "pattern": "shop-*", "replace": True},
    ],
)
def test_what_cannot_be_read_admits_none(change: dict[str, Any]):
    """The definition lets none of it pass; an older one might have."""
    with pytest.raises(UnreadableToken):
        join_tokens.read("id", "1", {**SPEC, **change}, {})


def test_a_use_that_cannot_be_read_counts():
    """Else the token could be used again."""
    token = join_tokens.read("id", "1", SPEC, {"uses": ["noise", {"node": 7}], "pins": "none", "url": 5})
    assert len(token.uses) == 2 and token.pins == () and token.url == ""


def test_names_stand_in_one_line():
    """Each once, in the order of admission; of many as many as fit, and how many more."""

    def names(*found: str) -> str:
        return join_tokens.names(msgspec.structs.replace(USE, node=each) for each in found)

    assert (names(), names("a"), names("b", "a", "b", "")) == ("", "a", "b, a")
    assert names(*(f"shop-{number:03}" for number in range(1000))).endswith(", shop-028, shop-029 and 970 more")
    long = [letter * 253 for letter in "abc"]
    assert names(*long) == f"{long[0]} and 2 more"
    most = [names(f"n{'x' * size}", *(f"{number}-{'y' * size}" for number in range(999))) for size in range(252)]
    assert max(map(len, most)) <= identity_specs.USED_BY_CHARS_MAX


@pytest.mark.parametrize(
    ("spec", "covered", "not_covered"),
    [
        ({"node": "edge-1"}, ["edge-1"], ["edge-10", "edge-", ""]),
        ({"node": None, "pattern": "shop-*"}, ["shop-1", "shop-"], ["sho", "a-shop-1"]),
        ({"node": None, "pattern": "*"}, ["anything"], []),
        ({"node": None, "pattern": "shop"}, [], ["shop", "shop-1"]),
    ],
)
def test_whom_a_token_covers(spec: dict[str, Any], covered: list[str], not_covered: list[str]):
    """One name, or names with one beginning."""
    token = join_tokens.read("id", "1", {**SPEC, **spec}, {})
    assert all(map(token.covers, covered)) and not any(map(token.covers, not_covered))


def test_keys_and_names_are_found_while_their_token_exists():
    """Also where two tokens admitted one name; what is gone is forgotten whole."""
    tokens = JoinTokens()
    for id in ("a", "b"):
        tokens.put(join_tokens.read(id, "1", SPEC, {"uses": [USE.document()]}))
    assert tokens.key_owner("k", "edge-2") == "edge-1" and tokens.key_owner("k", "edge-1") == ""
    assert tokens.uses_of("edge-1") == [USE, USE] and not tokens.listed
    tokens.put(join_tokens.read("a", "2", SPEC, {}))
    assert tokens.uses_of("edge-1") == [USE]
    tokens.keep({"a"})
    assert tokens.listed and [token.id for token in tokens] == ["a"] and tokens.of("b") is None
    assert tokens.key_owner("k", "edge-2") == "" and tokens.uses_of("edge-1") == []
    tokens.remove("unknown")
