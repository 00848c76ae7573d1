"""The OpenAPI document: it is one, and it says what the contract says."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import openapi_spec_validator
import pytest
from tests.support.topics.messaging import EVERY_ROUTE, serving

from fairlead_messaging.api import openapi

DOCUMENT: dict[str, Any] = json.loads(openapi.encode())
OPERATIONS = [
    pytest.param(path, operation, id=operation["operationId"])
    for path, methods in DOCUMENT["paths"].items()
    for operation in methods.values()
]


def at(reference: str) -> Any:
    found: Any = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def references(value: Any) -> list[str]:
    """Every ``$ref`` in a value."""
    if isinstance(value, list):
        return [each for item in value for each in references(item)]
    if not isinstance(value, dict):
        return []
    return [reference for key, item in value.items() for reference in ([item] if key == "$ref" else references(item))]


def schema(shape: Any) -> dict[str, Any]:
    """A shape with what it refers to."""
    return {"allOf": [shape], "components": DOCUMENT["components"]}


@pytest.mark.slow
def test_it_is_openapi_3_1() -> None:
    """As a validator of others says; with its title, its version, and who may ask."""
    openapi_spec_validator.validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert {"title", "version"} <= set(DOCUMENT["info"])
    assert {name for each in DOCUMENT["security"] for name in each} <= set(DOCUMENT["components"]["securitySchemes"])


def test_each_route_is_in_it_and_no_other() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in EVERY_ROUTE}


def test_every_reference_leads_somewhere() -> None:
    found = set(references(DOCUMENT))
    assert all(at(reference) for reference in found)
    assert {name.rsplit("/", 1)[1] for name in found if "/schemas/" in name} == set(DOCUMENT["components"]["schemas"])


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_schemas_are_json_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])


@pytest.mark.parametrize(("path", "operation"), OPERATIONS)
def test_parameters_examples_and_answers_of_an_operation(path: str, operation: dict[str, Any]) -> None:
    parameters = operation.get("parameters", [])
    described = {each["name"] for each in parameters if each["in"] == "path"}
    assert described == set(re.findall(r"\{(\w+)\}", path))
    assert all(each["required"] for each in parameters if each["in"] == "path")
    for parameter in parameters:
        jsonschema.Draft202012Validator.check_schema(parameter["schema"])
    assert "default" in operation["responses"]
    bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
    for answer in bodies[1:]:
        assert (at(answer["$ref"]) if "$ref" in answer else answer)["description"]
    for media in (media for body in bodies for media in body.get("content", {}).values()):
        for example in media.get("examples", {}).values():
            jsonschema.validate(example["value"], schema(media["schema"]), cls=jsonschema.Draft202012Validator)


async def test_it_is_served_to_everyone() -> None:
    """It says nothing of the topics: a page of its own origin that shows it may read it, too."""
    async with serving() as topics:
        assert await topics.ok("GET", "/openapi.json") == DOCUMENT
        assert (await topics.ask("GET", "/openapi.json", headers={"Origin": "https://elsewhere.example"})).status == 200
        refused = await topics.ask("GET", "/v1/namespaces", headers={"Origin": "https://elsewhere.example"})
        assert (refused.status, refused.code) == (403, "forbidden")
