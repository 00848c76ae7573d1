"""Converts the schema of a model into the form Kubernetes accepts: structural, self-contained, known keywords only.

pydantic's JSON schema ─▶ references inlined, titles dropped, null removed, unions of numbers reduced to one type
                       ─▶ string or object: no type, the limits of both, values of other kinds refused
                       ─▶ closed models: unknown fields are preserved, so that they can be counted and refused
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pydantic

CLOSED = "x-closed"
"""For a model's ``json_schema_extra``: the API server refuses unknown fields too. Common Expression Language cannot
name unknown fields, and pruning would drop them silently: a misspelled selector would select everything.  So they
are preserved, and an object may have only as many fields as it has known ones."""
PRESERVE = "x-kubernetes-preserve-unknown-fields"
_ORDER = (
    "description", "type", "format", "nullable", "enum", "default", "minimum", "maximum", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "minProperties", "maxProperties", PRESERVE, "x-kubernetes-map-type",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "not", "anyOf", "required", "properties",
    "additionalProperties", "items", "x-kubernetes-validations",
)  # fmt: skip
_DROPPED = frozenset(("title", "$defs", CLOSED))


def of(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The structural schema.  Raises ``ValueError`` for a keyword that a definition cannot contain."""
    schema = model.model_json_schema(by_alias=True)
    return _structural(schema, schema.get("$defs", {}))


def _structural(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    found = _one(dict(schema), definitions)
    others = found.pop("additionalProperties", None)
    if isinstance(others, dict):
        found["additionalProperties"] = _structural(others, definitions)
    elif others is False and found.get(CLOSED):
        found |= {PRESERVE: True, "anyOf": _counts(found)}
    if "properties" in found:
        found["properties"] = {name: _structural(each, definitions) for name, each in found["properties"].items()}
    if isinstance(found.get("items"), dict):
        found["items"] = _structural(found["items"], definitions)
    if found.get("default", 0) is None:
        del found["default"]
    if unknown := found.keys() - _DROPPED - set(_ORDER):
        raise ValueError(f"no keyword of a structural schema: {', '.join(sorted(unknown))}")
    return {key: found[key] for key in _ORDER if key in found}


def _one(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve references and unions with null: Kubernetes expresses "no value" by absence, not by null."""
    if "$ref" in schema:
        below = _one(dict(definitions[schema.pop("$ref").rpartition("/")[2]]), definitions)
        return {**below, **schema}
    choices = schema.pop("anyOf", None)
    if choices is None:
        return schema
    several = [_one(dict(each), definitions) for each in choices if each.get("type") != "null"]
    by_type = {each["type"]: each for each in several}
    if by_type.keys() == {"string", "object"}:
        return {**_text_or_object(by_type["string"], by_type["object"]), **schema}
    if len(several) > 1:  # a whole number, or any
        assert by_type.keys() == {"integer", "number"}, several
        several = [by_type["number"]]
    return {**several[0], **schema}


def _text_or_object(text: Mapping[str, Any], thing: Mapping[str, Any]) -> dict[str, Any]:
    """Accept a string or an object, with the limits of both.

    Without a type, a limit applies only to values of its own kind.  So only a string satisfies "not: the maximum length
    is 0", and correspondingly for an object; values of other kinds satisfy neither.
    """
    limits = {key: each for key, each in (*text.items(), *thing.items()) if key not in ("type", "title", "description")}
    return {**limits, PRESERVE: True, "anyOf": [{"not": {"maxLength": 0}}, {"not": {"maxProperties": 0}}]}


def _counts(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Count the known fields that are present: the required ones, and every combination of the optional ones."""
    always = schema.get("required", [])
    defaulted = [name for name, each in schema["properties"].items() if each.get("default") is not None]
    others = [name for name in schema["properties"] if name not in always and name not in defaulted]
    found: list[dict[str, Any]] = []
    for count in range(len(others) + 1):
        for some in itertools.combinations(others, count):
            most: dict[str, Any] = {"maxProperties": len(always) + len(defaulted) + count}
            found.append({"required": list(some), **most} if some else most)
    return found
