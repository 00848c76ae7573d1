"""An OpenAPI document from a table of operations."""

from __future__ import annotations

from typing import Annotated

import msgspec
import openapi_spec_validator

from fairlead_wire.http import openapi
from fairlead_wire.http.openapi import Operation


class Asked(msgspec.Struct):
    """A query."""

    name: str
    limit: Annotated[int, msgspec.Meta(ge=1)] = 10


class Thing(msgspec.Struct):
    """A body."""

    size: int


PUT = Operation(
    name="put", method="PUT", path="/things/{name}", summary="Put one.", request=Thing, answer=Thing,
    headers={"If-Match": "Its version."}, refusals={404: "None.", 503: "Later."},
)  # fmt: skip
FIND = Operation(name="find", method="GET", path="/things", summary="Find some.", query=Asked, answer=list[Thing])
PROBE = Operation(
    name="probe", method="GET", path="/healthz", summary="It runs.", media=openapi.TEXT, is_open=True, refusal=None,
    refusals={503: "Not yet."},
)  # fmt: skip
DOCUMENT = openapi.document(
    (PUT, FIND, PROBE, openapi.DESCRIBE),
    title="Things",
    description="Of a test.",
    parameters={"name": {"type": "string"}},
    security={"token": {"type": "http", "scheme": "bearer"}},
)


def test_it_is_openapi_3_1() -> None:
    """As a validator of others says, for an interface with every kind of operation."""
    openapi_spec_validator.validate(DOCUMENT)
    assert DOCUMENT["openapi"] == openapi.VERSION


def test_an_operation_has_its_parameters_its_body_and_its_refusals() -> None:
    """Those of the path, the query and the headers; a status that asks to come back says when."""
    put = DOCUMENT["paths"]["/things/{name}"]["put"]
    assert [(each["name"], each["in"], each["required"]) for each in put["parameters"]] == [
        ("name", "path", True),
        ("If-Match", "header", False),
    ]
    assert put["requestBody"]["content"][openapi.JSON]["schema"] == {"$ref": "#/components/schemas/Thing"}
    assert set(put["responses"]) == {"200", "404", "503"}
    assert "Retry-After" in put["responses"]["503"]["headers"]
    assert "headers" not in put["responses"]["404"]
    query = {each["name"]: each for each in DOCUMENT["paths"]["/things"]["get"]["parameters"]}
    assert query["name"]["required"] and not query["limit"]["required"] and query["limit"]["schema"]["minimum"] == 1


def test_what_needs_no_token_says_so() -> None:
    """The document itself, and probes, which are answered by a line of text."""
    assert DOCUMENT["paths"]["/openapi.json"]["get"]["security"] == []
    probe = DOCUMENT["paths"]["/healthz"]["get"]
    assert probe["security"] == [] and list(probe["responses"]["503"]["content"]) == [openapi.TEXT]
    assert "security" not in DOCUMENT["paths"]["/things"]["get"]
