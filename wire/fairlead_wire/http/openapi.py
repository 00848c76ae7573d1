"""Describes an HTTP interface as an OpenAPI 3.1 document, from the table that its handlers are registered with.

    Operation ─┬─▶ app.router      method and path, with a handler
               └─document──▶ JSON  the same, with types as schemas (``msgspec.json.schema_components``)

So the document cannot name a path that is not served.  It contains no secrets and nothing about the running program, so
it needs no token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

VERSION: Final = "3.1.0"
PATH: Final = "/openapi.json"
JSON: Final = "application/json"
TEXT: Final = "text/plain"

_REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


class CodeAndMessage(msgspec.Struct, frozen=True):
    """``code`` is for programs and stays the same; ``message`` is for people and may change."""

    code: str
    message: str


class Error(msgspec.Struct, frozen=True):
    """A response with a status of 400 or above."""

    error: CodeAndMessage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation:
    """One call.  ``query`` and ``request`` are the structs that decode it; ``answer`` is the JSON type of a 200."""

    name: str
    method: str
    path: str
    summary: str
    query: type[msgspec.Struct] | None = None
    request: Any = None
    request_is_required: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers: name and meaning."""
    answer: Any = None
    media: str = JSON
    other_media: tuple[str, ...] = ()
    """Other media types of the same answer, on request."""
    refusals: Mapping[int, str] = field(default_factory=dict)
    """Other responses: status and meaning."""
    refusal: Any = Error
    """The JSON type of those responses; None: a line of text."""
    is_open: bool = False
    """Needs no token or certificate."""


DESCRIBE: Final = Operation(
    name="openapi", method="GET", path=PATH, answer=dict[str, Any], is_open=True, summary="This document."
)  # fmt: skip


def document(
    operations: Iterable[Operation],
    *,
    title: str,
    description: str,
    parameters: Mapping[str, Mapping[str, Any]],
    security: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """The document as JSON values.

    ``parameters`` maps each path parameter to its schema.  ``security`` maps names to security schemes, of which a
    request needs any one.
    """
    every = list(operations)
    kinds = {
        repr(kind): kind for each in every for kind in (each.request, each.answer, each.refusal) if kind is not None
    }
    shapes, components = msgspec.json.schema_components(list(kinds.values()), ref_template=_REF)
    schema_of = dict(zip(kinds, shapes, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in every:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schema_of, parameters)
    found: dict[str, Any] = {
        "openapi": VERSION,
        "info": {"title": title, "version": "1", "description": description},
        "security": [*({name: []} for name in security), {}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": dict(security)},
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return plain


def _operation(
    operation: Operation, schema_of: Mapping[str, Any], path_parameters: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    found: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": path_parameters[name]}
        for name in _PARAMETER.findall(operation.path)
    ]
    parameters += _query(operation.query)
    parameters += [
        {"name": name, "in": "header", "required": False, "description": meaning, "schema": {"type": "string"}}
        for name, meaning in operation.headers.items()
    ]
    if parameters:
        found["parameters"] = parameters
    if operation.request is not None:
        shape = schema_of[repr(operation.request)]
        found["requestBody"] = {"required": operation.request_is_required, "content": {JSON: {"schema": shape}}}
    shape = {"type": "string"} if operation.answer is None else schema_of[repr(operation.answer)]
    content: dict[str, Any] = {operation.media: {"schema": shape}}
    content |= {media: {"schema": {"type": "object"}} for media in operation.other_media}
    found["responses"] = {"200": {"description": "Done.", "content": content}}
    for status, meaning in sorted(operation.refusals.items()):
        found["responses"][str(status)] = _refusal(operation, status, meaning, schema_of)
    if operation.is_open:
        found["security"] = []
    return found


def _query(model: type[msgspec.Struct] | None) -> list[dict[str, Any]]:
    if model is None:
        return []
    _, components = msgspec.json.schema_components([model], ref_template=_REF)
    shape = components[model.__name__]
    return [
        {"name": name, "in": "query", "required": name in shape["required"], "schema": schema}
        for name, schema in shape["properties"].items()
    ]


def _refusal(operation: Operation, status: int, meaning: str, schema_of: Mapping[str, Any]) -> dict[str, Any]:
    if operation.refusal is None:
        content: dict[str, Any] = {TEXT: {"schema": {"type": "string"}}}
    else:
        content = {JSON: {"schema": schema_of[repr(operation.refusal)]}}
    found: dict[str, Any] = {"description": meaning, "content": content}
    if status in (429, 503, 507):
        found["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    return found
