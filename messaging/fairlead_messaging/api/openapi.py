"""The contract as an OpenAPI 3.1 document, made from ``routes``, ``requests``, ``responses`` and ``error_codes``.

ROUTES ─→ paths, each with its request, its answer and its refusals by status
structs ─→ components.schemas (``msgspec.json.schema_components``)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from fairlead_messaging.api import error_codes, headers
from fairlead_messaging.api.routes import ARROW_POLL, HEALTH_ROUTES, POLL, ROUTES, ApiRoute

OPENAPI_VERSION = "3.1.0"
CONTRACT_VERSION = "1"
"""The version of the paths under /v1."""

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")
_PATH_MEANINGS = {
    "namespace": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,200}$"},
    "topic": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,200}$"},
    "reader": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,200}$"},
    "subscription": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,200}$"},
    "pointer": {"type": "integer", "description": "transactionWritePointer"},
}


def document() -> dict[str, Any]:
    """The whole document, as JSON values."""
    every = (*ROUTES, *HEALTH_ROUTES)
    kinds = _kinds(every)
    shapes, components = msgspec.json.schema_components(list(kinds.values()), ref_template=_REF)
    schema_of = dict(zip(kinds, shapes, strict=True))
    components |= {"Error": _error(), "CodeAndMessage": _code_and_message()}
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for route in every:
        paths[route.path][route.method.lower()] = _operation(route, schema_of)
    return _plain(
        {
            "openapi": OPENAPI_VERSION,
            "info": {
                "title": "Fairlead messaging",
                "version": CONTRACT_VERSION,
                "description": "Ordered, durable topics with transactions. The answer 200 means that a change is on"
                " disk. Positions and ids are hex text; payloads are base64.",
            },
            "security": [{"mutualTLS": []}, {"serviceAccount": []}, {}],
            "paths": dict(paths),
            "components": {
                "schemas": components,
                "responses": {"Refused": _refusal(error_codes.EVERYWHERE)},
                "securitySchemes": {
                    "mutualTLS": {
                        "type": "mutualTLS",
                        "description": "Required unless the service runs with security = insecure, which it does on"
                        " loopback only. `[[access]]` grants certificates verbs; x-verbs are those that a call needs.",
                    },
                    "serviceAccount": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "A token of a Kubernetes ServiceAccount with this service as its audience, in"
                        " place of a certificate, if an entry of `[[access]]` names the account.",
                    },
                },
            },
        }
    )


def encode() -> bytes:
    """The document as it is served."""
    return msgspec.json.encode(document())


def _kinds(routes: Iterable[ApiRoute[Any]]) -> dict[str, Any]:
    """Every type that needs a schema, by its representation."""
    kinds: dict[str, Any] = {repr(ARROW_POLL.request): ARROW_POLL.request}
    for route in routes:
        for kind in (route.request, route.response, route.other_response):
            if kind is not None:
                kinds[repr(kind)] = kind
    return kinds


def _operation(route: ApiRoute[Any], schema_of: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"operationId": route.operation, "summary": route.summary}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _PATH_MEANINGS[name]}
        for name in _PARAMETER.findall(route.path)
    ]
    parameters += _query(route)
    if parameters:
        found["parameters"] = parameters
    if route.request is not None:
        found["requestBody"] = _request(route, schema_of)
    found["responses"] = {
        "200": _answer(route, schema_of),
        **_refusals(route.specific_codes),
        "default": {"$ref": "#/components/responses/Refused"},
    }
    if route.is_open:
        found["security"] = []
    if route.verbs:
        found["x-verbs"] = {"allOf" if route.needs_all else "oneOf": [str(each) for each in route.verbs]}
    return found


def _query(route: ApiRoute[Any]) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    _, components = msgspec.json.schema_components([route.query], ref_template=_REF)
    shape = components[route.query.__name__]
    return [
        {"name": name, "in": "query", "required": name in shape["required"], "schema": schema}
        for name, schema in shape["properties"].items()
    ]


def _request(route: ApiRoute[Any], schema_of: dict[str, Any]) -> dict[str, Any]:
    shape = schema_of[repr(route.request)]
    examples = {route.operation: {"value": route.example}}
    if route is POLL:
        shape = {"anyOf": [shape, schema_of[repr(ARROW_POLL.request)]]}
        examples[ARROW_POLL.operation] = {"value": ARROW_POLL.example}
    content: dict[str, Any] = {headers.JSON: {"schema": shape, "examples": examples}}
    if headers.AVRO in route.media:
        content[headers.AVRO] = {"schema": {"type": "string", "contentMediaType": headers.AVRO}}
    return {"required": route.request_is_required, "content": content}


def _answer(route: ApiRoute[Any], schema_of: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"description": "Done."}
    content: dict[str, Any] = {}
    if route.response is not None:
        shape = schema_of[repr(route.response)]
        if route.other_response is not None:
            shape = {"anyOf": [shape, schema_of[repr(route.other_response)]]}
        content[headers.JSON] = {"schema": shape}
        if route.answers is not None:
            content[headers.JSON]["examples"] = {route.operation: {"value": route.answers}}
        if headers.AVRO in route.media:
            content[headers.AVRO] = {"schema": {"type": "string", "contentMediaType": headers.AVRO}}
    elif headers.JSON not in route.media:
        content = {media: {"schema": {"type": "string"}} for media in route.media}
    if route is POLL:
        content[headers.ARROW] = {"schema": {"type": "string", "contentMediaType": headers.ARROW}}
    if content:
        found["content"] = content
    names = ARROW_POLL.headers if route is POLL else route.headers
    if names:
        found["headers"] = {
            name: {
                "description": headers.MEANINGS[name] + ("" if name in route.headers else " Of Arrow pages."),
                "schema": {"type": "string"},
            }
            for name in names
        }
    return found


def _refusals(codes: Iterable[str]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = defaultdict(list)
    for code in codes:
        by_status[error_codes.MEANINGS[code][0]].append(code)
    return {str(status): _refusal(by_status[status], status) for status in sorted(by_status)}


def _refusal(codes: Iterable[str], status: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": "\n".join(f"- `{code}`: {error_codes.MEANINGS[code][1]}" for code in codes),
        "content": {headers.JSON: {"schema": {"$ref": _REF.format(name="Error")}}},
    }
    if status in (None, 503):
        meaning = headers.MEANINGS[headers.RETRY_AFTER]
        found["headers"] = {headers.RETRY_AFTER: {"description": meaning, "schema": {"type": "integer"}}}
    return found


def _error() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "The body of every answer with a status from 400 on.",
        "required": ["error"],
        "properties": {"error": {"$ref": _REF.format(name="CodeAndMessage")}},
    }


def _code_and_message() -> dict[str, Any]:
    facts = {name: shape for shapes in error_codes.FACTS.values() for name, shape in shapes.items() if name != "state"}
    states = {state for shapes in error_codes.FACTS.values() for state in shapes.get("state", {}).get("enum", ())}
    return {
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "string", "enum": sorted(error_codes.MEANINGS)},
            "message": {"type": "string", "description": "For people; it may change."},
            **facts,
            "state": {"type": "string", "enum": sorted(states)},
        },
    }


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """An example as plain JSON values: structs become objects, tuples arrays, bytes base64."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return found
