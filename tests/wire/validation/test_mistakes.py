"""The words of a mistake: made from the type and the limits of a key, whichever library reads it."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest
from pydantic import Field

from fairlead_wire.validation import mistakes
from fairlead_wire.validation.mistakes import Mistake, Wrong, expected, nearest, shown


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "a whole number"),
        (str | None, "text"),
        (str | int | float, "text or a number"),
        (list[str], "a list"),
        (dict[str, int], "keys and values"),
        (Mistake, "keys and values"),
        (bool, "true or false"),
        (datetime.datetime, "a time"),
        (type(None), "nothing"),
        (Literal["a", "b"] | None, "one of a, b"),
        (Annotated[int, msgspec.Meta(ge=1, le=9)], "a whole number from 1 to 9"),
        (Annotated[int, Field(ge=1, le=9)], "a whole number from 1 to 9"),
        (Annotated[float, msgspec.Meta(gt=0, le=86400)] | None, "a number above 0 and at most 86400"),
        (Annotated[float, msgspec.Meta(gt=0)], "a number above 0"),
        (Annotated[int, Field(ge=5)], "a whole number of at least 5"),
        (Annotated[int, msgspec.Meta(le=5)], "a whole number of at most 5"),
        (Annotated[str, msgspec.Meta(min_length=1)], "text that is not empty"),
        (Annotated[str, Field(min_length=2)], "text of at least 2 characters"),
        (Annotated[str, msgspec.Meta(min_length=1, max_length=5)], "text of 1 to 5 characters"),
        (Annotated[list[int], msgspec.Meta(max_length=5)], "a list of at most 5 entries"),
        (Annotated[str, msgspec.Meta(pattern="^a$")], "text like ^a$"),
    ],
)
def test_what_may_stand_at_a_key(annotation: Any, words: str) -> None:
    assert expected(annotation) == words


def test_a_check_raises_all_it_found() -> None:
    both = Wrong(Mistake("a", "bad"), Mistake("", "worse"))
    assert str(both) == "a: bad\nworse" and mistakes.of(both) == both.mistakes
    assert both.sentence == "a: bad; worse"
    assert mistakes.of(ValueError("why")) == (Mistake("", "why"),)
    mistakes.refuse(())
    with pytest.raises(Wrong, match=r"^k: why$"):
        mistakes.refuse([Mistake("k", "why")])
    assert Mistake("k", "why").below("a[2]") == Mistake("a[2].k", "why")


def test_secrets_in_addresses_are_not_quoted() -> None:
    assert "pw" not in shown("wss://user:pw@hub") and len(shown("x" * 500)) < 100
    assert shown(5) == "5"


def test_nearest_is_near_or_nothing() -> None:
    assert nearest("priorty", ["priority", "route"]) == "priority"
    assert nearest("x", ["priority", "route"]) is None
    assert str(Mistake("", "all of it")) == "all of it"
