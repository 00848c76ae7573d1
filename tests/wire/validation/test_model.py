"""Models are strict, frozen and closed; aliases, checks of one field, unions of models.  test_reader has the rest."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import pydantic
import pytest
from pydantic import AfterValidator, Field

from fairlead_wire.validation import mistakes
from fairlead_wire.validation.model import MODELS, ListenAddress, Model


class Settings(Model):
    listen: ListenAddress = "127.0.0.1:1"
    seconds: float = 1


@pytest.mark.parametrize("document", [{"seconds": "1"}, {"secnds": 1}, {"seconds": float("nan")}, {"seconds": True}])
def test_nothing_is_guessed(document: dict[str, object]) -> None:
    with pytest.raises(pydantic.ValidationError):
        Settings.model_validate(document)


def test_values_stay_as_they_were_read() -> None:
    """They are handed to threads and kept for the whole run; an error never quotes what it was given."""
    settings = Settings.model_validate({"listen": "[::1]:80", "seconds": 2})
    with pytest.raises(pydantic.ValidationError):
        settings.seconds = 3
    with pytest.raises(pydantic.ValidationError) as refused:
        Settings.model_validate({"listen": "wss://user:secret@host"})
    assert "input_value" not in str(refused.value)


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
    return [str(each) for each in MODELS.find(document, Document)]


def test_keys_are_those_of_the_document() -> None:
    assert said({"matchLabels": {"a/b": 1}}) == ["matchLabels.a/b: must be text, is 1"]
    assert said({"matchLabel": {}}) == ["matchLabel: unknown key; did you mean matchLabels?"]
    assert said({"match_labels": {}}) == ["match_labels: unknown key; did you mean matchLabels?"]
    assert MODELS.fields(Document)[0][:2] == ("matchLabels", dict[str, str])


def test_checks_of_one_field_need_not_name_it() -> None:
    assert said({"listen": "nowhere", "pair": 3}) == [
        "listen: must be host:port, is 'nowhere'",
        "pair: must be even, is 3",
    ]


def test_a_union_speaks_once() -> None:
    """About the member that was meant, if one can tell; else about all of them."""
    assert said({"number": 1, "typo": 2}) == ["number: must be a number of at least 5, is 1", "typo: unknown key"]
    assert said({"number": "5"}) == ["number: must be a number of at least 5, is '5'"]
    assert said({"parts": [{"unit": ""}, 3]}) == [
        "parts[0].unit: must not be empty",
        "parts[1]: must be keys and values, is 3",
    ]
    assert said({"parts": [{"kind": "sensr", "unit": "x"}]}) == [
        "parts[0].kind: must be one of sensor, is 'sensr'; did you mean sensor?"
    ]
