"""A model's schema as Kubernetes takes it."""

import pydantic
import pytest
from pydantic import Field

from fairlead_hub.cluster.custom_resources import structural_schema


class Inner(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    number: int | float | None = None


class Outer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", json_schema_extra={structural_schema.CLOSED: True})

    name: str
    inner: Inner | None = Field(default=None, description="Below.", json_schema_extra={"nullable": True})
    several: list[Inner] | None = None
    choice: str = "a"


def test_it_is_in_one_piece() -> None:
    """References are put in place; absent says that there is no value, and a number may be whole."""
    schema = structural_schema.of(Outer)
    inner = {"type": "object", "properties": {"number": {"type": "number"}}}
    assert schema["properties"] == {
        "name": {"type": "string"},
        "inner": {"description": "Below.", "nullable": True, **inner},
        "several": {"type": "array", "items": inner},
        "choice": {"type": "string", "default": "a"},
    }
    assert schema["required"] == ["name"]


def test_a_closed_object_may_have_as_many_fields_as_it_has_known_ones() -> None:
    """A field with a default is always there."""
    schema = structural_schema.of(Outer)
    assert schema[structural_schema.PRESERVE] is True
    assert schema["anyOf"] == [
        {"maxProperties": 2},
        {"required": ["inner"], "maxProperties": 3},
        {"required": ["several"], "maxProperties": 3},
        {"required": ["inner", "several"], "maxProperties": 4},
    ]


def test_what_has_no_place_in_a_definition_is_refused() -> None:
    """Instead of being refused by an API server some day."""

    class Odd(pydantic.BaseModel):
        field: int = Field(default=1, multiple_of=3)

    with pytest.raises(ValueError, match="multipleOf"):
        structural_schema.of(Odd)
