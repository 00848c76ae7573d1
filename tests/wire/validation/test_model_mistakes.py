"""What only pydantic models have: aliases, checks of one field, unions of models; test_struct_mistakes has the rest."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import pydantic
from pydantic import AfterValidator, Field

from fairlead_wire.validation import mistakes, model_mistakes
from fairlead_wire.validation.model import ListenAddress, Model


def _even(value: int) -> int:
    if value % 2:
        raise ValueError(f"must be even, is {value}")
    return value


class Sensor(Model):
    kind: Literal["sensor"] = "sensor"
    unit: str

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        if not self.unit:
            raise mistakes.wrong("unit", "must not be empty")
        return self


class Camera(Model):
    lens: Annotated[int, Field(ge=1)]


class Document(Model):
    match_labels: dict[str, str] = Field(default={}, alias="matchLabels")
    listen: ListenAddress | None = None
    parts: list[Sensor | Camera] = Field(default=[])
    pair: Annotated[int, AfterValidator(_even)] = 2
    number: Annotated[int, Field(ge=5)] | Annotated[float, Field(ge=5)] = 5


def said(document: object) -> list[str]:
    return [str(each) for each in model_mistakes.find(document, Document)]


def test_keys_are_those_of_the_document() -> None:
    """An alias, and the keys people chose themselves."""
    assert said({"matchLabels": {"a/b": 1}}) == ["matchLabels.a/b: must be text, is 1"]
    assert said({"matchLabel": {}}) == ["matchLabel: unknown key; did you mean matchLabels?"]
    assert said({"match_labels": {}}) == ["match_labels: unknown key; did you mean matchLabels?"]
    assert model_mistakes.fields(Document)[0] == ("matchLabels", dict[str, str])


def test_checks_of_one_field_need_not_name_it() -> None:
    """pydantic knows where they stand."""
    assert said({"listen": "nowhere", "pair": 3}) == [
        "listen: must be host:port, is 'nowhere'",
        "pair: must be even, is 3",
    ]


def test_a_union_speaks_once() -> None:
    """About the member that was meant, if one can tell; else about all of them."""
    assert said({"number": 1}) == ["number: must be a number of at least 5, is 1"]
    assert said({"number": "5"}) == ["number: must be a number of at least 5, is '5'"]
    assert said({"parts": [{"unit": ""}, 3]}) == [
        "parts[0].unit: must not be empty",
        "parts[1]: must be keys and values, is 3",
    ]
    assert said({"parts": [{"kind": "sensr", "unit": "x"}]}) == [
        "parts[0].kind: must be one of sensor, is 'sensr'; did you mean sensor?"
    ]


def test_an_error_that_was_caught_is_put_into_words() -> None:
    """For those who validate themselves, as kopf's handlers do."""
    data = {"number": 1, "typo": 2}
    try:
        Document.model_validate(data)
    except pydantic.ValidationError as error:
        assert [str(each) for each in model_mistakes.of(error, data, Document)] == [
            "typo: unknown key",
            "number: must be a number of at least 5, is 1",
        ]
