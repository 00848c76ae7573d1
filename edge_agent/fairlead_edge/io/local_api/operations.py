"""The table of all calls of the local API.

OPERATIONS ──▶ one handler each (``publish_api``, ``objects_api``, ``server``)
           ──▶ the document at /openapi.json

The Kubernetes-style paths are registered as two trees; ``OBJECT_PATHS`` lists their forms for the description.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from fairlead_edge.io.local_api.agent_account import AgentAccount
from fairlead_edge.io.local_api.bodies import (
    Abandoned,
    Acked,
    AskReceipt,
    DeadLetterPage,
    DeadLetters,
    Discard,
    Discarded,
    Ids,
    NothingPublished,
    PublishBody,
    Published,
    Receipt,
    Replay,
    Replayed,
    ReportedStatuses,
    Selection,
    Status,
    StatusOptions,
    Take,
    TakenMessages,
)
from fairlead_edge.outbox.publishing import KEY_CHARS_MAX
from fairlead_wire.http import openapi
from fairlead_wire.http.openapi import DESCRIBE, TEXT, Operation
from fairlead_wire.traces.trace import TRACEPARENT

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def register(app: web.Application, handlers: Mapping[Operation, Handler]) -> None:
    """Register the handlers of these operations."""
    for operation, handler in handlers.items():
        if operation.method == "GET":
            app.router.add_get(operation.path, handler)  # HEAD, too
        else:
            app.router.add_route(operation.method, operation.path, handler)


_BAD = "`bad_request`: the request cannot be read, or a value exceeds its limits."
_NOT_NOW = "`not_now`, `moving`: retry after Retry-After. `store_failed`: the disk failed."
_MODULES_OWN = "`forbidden`: messages for a module need that module's token."
_AGENTS_OWN = "`forbidden`: dead letters need the token from the agent's data folder."
_NO_TOKEN = "`unauthorized`: no token was sent, or an unknown one."
_TOO_LARGE = "`too_large`: the body exceeds its limit."
_FULL = "`store_full`: nothing was stored; free some room or wait."
_INPUT = "/v1/modules/{module}/inputs/{input}"
_WAYS = (f"{_INPUT}/messages", _INPUT)
"""Ack and abandon are served under both paths, because the contract can be read either way."""

PUBLISH: Final = Operation(
    name="publish", method="POST", path="/v1/messages", request=PublishBody, answer=Published, refusal=NothingPublished,
    summary="Publish messages: when the response arrives, they are routed and on this node's disk.",
    headers={
        "Idempotency-Key": f"1 to {KEY_CHARS_MAX} printable characters; a retry with the same key stores nothing"
        " twice.",
        TRACEPARENT: "W3C trace context of all messages of the request.",
    },
    refusals={400: f"{_BAD} Or the first reason, if no message was accepted.", 401: _NO_TOKEN,
              403: "`forbidden`: the source names another module.", 413: _TOO_LARGE, 503: _NOT_NOW, 507: _FULL},
)  # fmt: skip
TAKE: Final = Operation(
    name="take", method="GET", path=f"{_INPUT}/messages", query=Take, answer=TakenMessages,
    summary="Take messages for a module's input; each is leased until it is acknowledged, abandoned or the lease ends.",
    refusals={400: _BAD, 401: _NO_TOKEN, 403: _MODULES_OWN, 503: _NOT_NOW},
)  # fmt: skip
ACKS: Final = tuple(
    Operation(
        name=name, method="POST", path=f"{way}/ack", request=Ids, answer=Acked,
        summary="Acknowledge messages: they are done and are not delivered again.",
        refusals={400: _BAD, 401: _NO_TOKEN, 403: _MODULES_OWN, 413: _TOO_LARGE, 503: _NOT_NOW},
    )
    for name, way in zip(("ack", "ackShort"), _WAYS, strict=True)
)  # fmt: skip
ABANDONS: Final = tuple(
    Operation(
        name=name, method="POST", path=f"{way}/abandon", request=Ids, answer=Abandoned,
        summary="Abandon messages: they are delivered again according to the delivery policy.",
        refusals={400: _BAD, 401: _NO_TOKEN, 403: _MODULES_OWN, 413: _TOO_LARGE, 503: _NOT_NOW},
    )
    for name, way in zip(("abandon", "abandonShort"), _WAYS, strict=True)
)  # fmt: skip
RECEIPT: Final = Operation(
    name="receipt", method="GET", path="/v1/receipts/{id}", query=AskReceipt, answer=Receipt,
    summary="Where a message is: waiting here, in its topic, in a table; offline, as far as the node knows.",
    refusals={400: _BAD, 401: _NO_TOKEN, 404: "`unknown_message`: it is unknown, or belongs to another module.",
              429: "`too_many_receipts`: retry after Retry-After.", 503: _NOT_NOW},
)  # fmt: skip
DEAD_LETTERS: Final = Operation(
    name="listDeadLetters", method="GET", path="/v1/deadletters", query=DeadLetterPage, answer=DeadLetters,
    summary="List dead letters, by number.",
    refusals={400: _BAD, 401: _NO_TOKEN, 403: _AGENTS_OWN, 503: _NOT_NOW},
)  # fmt: skip
REPLAY: Final = Operation(
    name="replayDeadLetters", method="POST", path="/v1/deadletters/replay", request=Replay, request_is_required=False,
    answer=Replayed, summary="Put dead letters back into their queues, with a new time to live and no attempts.",
    refusals={400: _BAD, 401: _NO_TOKEN, 403: _AGENTS_OWN, 413: _TOO_LARGE, 503: _NOT_NOW, 507: _FULL},
)  # fmt: skip
DISCARD: Final = Operation(
    name="discardDeadLetters", method="POST", path="/v1/deadletters/discard", request=Discard, answer=Discarded,
    summary="Delete dead letters; they count as evicted.",
    refusals={400: _BAD, 401: _NO_TOKEN, 403: _AGENTS_OWN, 413: _TOO_LARGE, 503: _NOT_NOW, 507: _FULL},
)  # fmt: skip
STATUSES: Final = Operation(
    name="listStatuses", method="GET", path="/v1/statuses", answer=ReportedStatuses, refusals={401: _NO_TOKEN},
    summary="List the statuses that programs on this node reported of objects, and how far each got.",
)  # fmt: skip
STATUS: Final = Operation(
    name="status", method="GET", path="/v1/status", answer=AgentAccount, refusals={401: _NO_TOKEN},
    summary="The agent's status: link, objects, queues, store, routes.",
)  # fmt: skip
SERVER_VERSION: Final = Operation(
    name="version", method="GET", path="/version", answer=dict[str, Any], refusals={401: _NO_TOKEN},
    summary="The server version, for Kubernetes clients.",
)  # fmt: skip
OPENAPI_V3: Final = Operation(
    name="openapiIndex", method="GET", path="/openapi/v3", answer=dict[str, Any], refusals={401: _NO_TOKEN},
    summary="Index of the OpenAPI documents, for Kubernetes clients: a URL with a hash for each.",
)  # fmt: skip
OPENAPI_V3_DOCUMENTS: Final = tuple(
    Operation(
        name=name, method="GET", path=path, answer=dict[str, Any], refusal=Status,
        refusals={401: _NO_TOKEN, 404: "Nothing of this group and version is served."},
        summary="Paths and kinds of one group and version; no schemas are kept at the edge.",
    )
    for name, path in (("openapiCore", "/openapi/v3/api/{version}"), ("openapi3", "/openapi/v3/apis/{group}/{version}"))
)  # fmt: skip
OPENAPI_V2: Final = Operation(
    name="openapiV2", method="GET", path="/openapi/v2", refusal=Status,
    refusals={401: _NO_TOKEN, 404: "Always: v3 is served."}, summary="Not served: `/openapi/v3` is.",
)  # fmt: skip
HEALTHZ: Final = Operation(
    name="healthz", method="GET", path="/healthz", media=TEXT, is_open=True, summary="The program is running."
)  # fmt: skip
READYZ: Final = Operation(
    name="readyz", method="GET", path="/readyz", media=TEXT, is_open=True, refusal=None, refusals={503: "Why not."},
    summary="The agent is ready.",
)  # fmt: skip
METRICS: Final = Operation(
    name="metrics", method="GET", path="/metrics", media=TEXT, refusals={401: _NO_TOKEN},
    summary="Metrics in Prometheus text format.",
)  # fmt: skip

OPERATIONS: Final = (
    PUBLISH, TAKE, *ACKS, *ABANDONS, RECEIPT, DEAD_LETTERS, REPLAY, DISCARD, STATUSES, STATUS, SERVER_VERSION,
    OPENAPI_V3, *OPENAPI_V3_DOCUMENTS, OPENAPI_V2, DESCRIBE, HEALTHZ, READYZ, METRICS,
)  # fmt: skip

OBJECT_TREES: Final = ("/api", "/apis")
_DOCUMENTS = {
    "/api": "versions", "/apis": "groups", "/api/{version}": "coreTypes", "/apis/{group}": "groupVersions",
    "/apis/{group}/{version}": "types",
}  # fmt: skip
_OBJECTS = {
    "{plural}": "listAll", "{plural}/{name}": "getClusterScoped", "namespaces/{namespace}/{plural}": "list",
    "namespaces/{namespace}/{plural}/{name}": "get",
}  # fmt: skip


_REFUSED = {401: "Secrets need the token from the agent's data folder.", 404: "No such type or object here.",
            406: "The client accepts neither JSON nor a Table."}  # fmt: skip
_PATCH_REFUSED = {
    **_REFUSED, 400: "The patch cannot be read.", 403: "No SyncRule allows it: `statusFromEdge: true`.",
    409: "Another program owns a field, or the object changed.", 413: "The patch is too large.",
    415: "Neither a JSON merge patch nor an apply.", 422: "Not a status.", 503: _NOT_NOW, 507: _FULL,
}  # fmt: skip
OBJECT_PATHS: Final = (
    *(
        Operation(name=f"discover{name[0].upper()}{name[1:]}", method="GET", path=path, answer=dict[str, Any],
                  refusal=Status, refusals={401: "No token."}, summary="A discovery document, for kubectl.")
        for path, name in _DOCUMENTS.items()
    ),
    *(
        Operation(name=f"{name}{suffix}", method="GET", path=f"{tree}/{rest}", answer=dict[str, Any],
                  query=Selection if "{name}" not in rest else None, refusal=Status, refusals=_REFUSED,
                  other_media=("application/json;as=Table;v=v1;g=meta.k8s.io",),
                  summary="Objects on this node, online or offline; read-only.")
        for tree, suffix in (("/api/{version}", "Core"), ("/apis/{group}/{version}", ""))
        for rest, name in _OBJECTS.items()
    ),
    *(
        Operation(name=f"patchStatus{name}", method="PATCH", path=f"{tree}/{rest}/{{name}}/status",
                  request=dict[str, Any], answer=dict[str, Any], query=StatusOptions, refusal=Status,
                  refusals=_PATCH_REFUSED,
                  summary="Report the status of an object, as JSON merge patch or server-side apply; it is on disk when"
                  " the response arrives, and written into the cluster when the link is up.")
        for tree, suffix in (("/api/{version}", "Core"), ("/apis/{group}/{version}", ""))
        for rest, name in (("{plural}", f"ClusterScoped{suffix}"), ("namespaces/{namespace}/{plural}", suffix))
    ),
)  # fmt: skip
"""The forms of the Kubernetes-style paths."""


def document() -> dict[str, Any]:
    """The OpenAPI document, as JSON values."""
    names = {"module": "Name of the module.", "input": "Name of the module's input.", "group": "Group of the type.",
             "version": "Version of the type.", "plural": "The type, as kubectl writes it in paths.",
             "id": "The message's id, from the response to its publishing.",
             "namespace": "Namespace of the object.", "name": "Name of the object."}  # fmt: skip
    return openapi.document(
        (*OPERATIONS, *OBJECT_PATHS),
        title="Fairlead edge agent",
        description="The local API of one node: applications publish and take messages, Kubernetes clients read"
        " objects, and the agent's status is shown. Served on the node, online or offline.",
        parameters={name: {"type": "string", "description": text} for name, text in names.items()},
        security={
            "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "The agent's token, or a module's; needed if the agent runs with mutual TLS, and always"
                " for Secrets.",
            }
        },
    )
