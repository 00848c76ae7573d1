"""The hub's HTTP API: every call once, and the shapes of its answers.

OPERATIONS ──▶ one handler each (``io.http``)
           ──▶ the document at /openapi.json

To change an answer, change its struct here: a test decodes real answers with these structs and allows no other field.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from fairlead_hub.explain import Code
from fairlead_hub.inputs.submission import TTL_SECONDS_DEFAULT, SendRequest, State, Ttl
from fairlead_wire import message
from fairlead_wire.http import openapi
from fairlead_wire.http.openapi import TEXT, Operation


class ResponseBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base class of answers; encoded and decoded with the same struct."""


class Stale(ResponseBody, frozen=True, kw_only=True):
    """A collection of the API that is not being followed at the moment."""

    collection: str
    since: str
    seconds: float
    reason: str


class RecordsRefused(ResponseBody, frozen=True, kw_only=True, omit_defaults=True):
    """Records that the API server refuses; ``since`` and ``reason`` are those of the oldest."""

    count: int
    since: str | None = None
    reason: str | None = None


class Guard(ResponseBody, frozen=True, kw_only=True):
    """The deletion guard that stopped a node's deletions."""

    id: str
    count: int
    since: str
    approved: bool


class ToTable(ResponseBody, frozen=True, kw_only=True, omit_defaults=True):
    """Time from acceptance at the node to a table, by the node's clock, for messages of one priority.

    Computed from the latest ``window`` of ``measured`` messages since the agent started; ``as_of`` is the newest
    measurement.
    """

    priority: int
    measured: int
    window: int
    p50_seconds: float
    p95_seconds: float
    as_of: str = ""


class NodeRow(ResponseBody, frozen=True, kw_only=True):
    """The state of one node."""

    node: str
    connected: bool
    last_contact: str
    agent: str
    wanted: int
    held: int
    pending: int
    lag_seconds: float
    in_flight: int
    parked: int
    queued: int
    """Messages stored at the node, from its last report."""
    dead_letters: int
    paused: str
    identity: str
    obeyed_fence: int | None
    """If the node is refused because it obeyed a hub with a higher fencing number: that number, as it reports it."""
    deletion_guard: Guard | None
    waiting_for: str
    kept: int
    kept_unknown: int
    """Kept objects for which it is unknown whether they are wanted, because their kind cannot be listed."""
    kept_unknown_reason: str
    rules: str
    to_table: list[ToTable]


class UnreadableObject(ResponseBody, frozen=True, kw_only=True):
    """A SyncRule or EdgeRoutes object that cannot be read."""

    kind: str
    name: str
    reason: str
    consequence: str
    nodes: int


class TroubledObject(ResponseBody, frozen=True, kw_only=True):
    """A SyncRule or EdgeRoutes object of which not all works."""

    kind: str
    name: str
    reason: str


class Nodes(ResponseBody, frozen=True, kw_only=True):
    """Every edge node."""

    hub: str
    fence: int
    stale: list[Stale]
    records_refused: RecordsRefused
    nodes: list[NodeRow]
    unreadable: list[UnreadableObject]
    troubled: list[TroubledObject]


class PendingObject(ResponseBody, frozen=True, kw_only=True):
    """An object on its way, and its current step."""

    key: str
    seconds: float
    step: str


class ParkedObject(ResponseBody, frozen=True, kw_only=True):
    """An object given up for now, and why."""

    key: str
    code: str
    reason: str
    retries: int
    next_retry_seconds: float


class KeptObject(ResponseBody, frozen=True, kw_only=True):
    """An object that is not wanted and not deleted yet, and why."""

    key: str
    reason: str


class NodeDetail(NodeRow, frozen=True, kw_only=True, omit_defaults=True):
    """One node in detail; the lists are those of its session, with at most a hundred entries each."""

    granted_topics: list[str]
    delivery: dict[str, str]
    pending_objects: list[PendingObject] | None = None
    parked_objects: list[ParkedObject] | None = None
    kept_objects: list[KeptObject] | None = None


class Version(ResponseBody, frozen=True, kw_only=True):
    """A version of an object and the digest of its content."""

    uid: str
    resource_version: str
    digest: str


class Explained(ResponseBody, frozen=True, kw_only=True, omit_defaults=True):
    """How far one object is on its way to one node: ``code`` for programs, ``answer`` for people."""

    node: str
    key: str
    code: Code
    answer: str
    last_delivered: str | None = None
    """When the node last acknowledged the object as durable, RFC 3339."""
    wanted: Version | None = None
    held: Version | None = None


class MessageState(ResponseBody, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a message.

    One of accepted (kept in messaging), delivered (durable at the node), consumed (acknowledged by its module),
    expired, evicted, dead_lettered, or refused by the node for ``reason``.
    """

    id: str
    state: State
    reason: str = ""
    expires_in_seconds: float | None = None
    """Set while the message is accepted."""


class Sent(ResponseBody, frozen=True, kw_only=True):
    """``results`` are in the order of the request; ``id`` and ``state`` are those of the first."""

    id: str
    state: State
    results: list[MessageState]


class SendQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Query of the send call: ``ttl`` in seconds, for messages that set none."""

    ttl: Ttl = TTL_SECONDS_DEFAULT


class StateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Waits up to ``wait`` seconds until the message has reached one of ``until`` or its state is final."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    until: Literal["delivered", "consumed"] = "consumed"


class ExplainQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Query of ``/v1/explain``."""

    node: str
    kind: str
    name: str
    namespace: str = ""


_INPUT_NAME: Final = message.INPUT_NAME.replace("\\Z", "$")
_PAGES = "The request came from a browser page; only other programs are answered."

NODES: Final = Operation(
    name="listNodes", method="GET", path="/v1/nodes", answer=Nodes, refusals={403: _PAGES},
    summary="Every edge node: whether it is connected, and how many objects are wanted, held, pending, parked and"
    " kept.",
)  # fmt: skip
NODE: Final = Operation(
    name="getNode", method="GET", path="/v1/nodes/{node}", answer=NodeDetail,
    summary="One node in detail, with the objects that are pending, parked or kept.",
    refusals={403: _PAGES, 404: "`no_node`: there is no edge Node of this name."},
)  # fmt: skip
EXPLAIN: Final = Operation(
    name="explain", method="GET", path="/v1/explain", query=ExplainQuery, answer=Explained,
    summary="Why an object is on a node or not: the step it has reached, and the reason.",
    refusals={400: "`missing_parameter`: node, kind and name are needed.", 403: _PAGES},
)  # fmt: skip
_WHO: Final = "`forbidden`: the caller is not allowed, or is a browser page."
_NO_IDENTITY: Final = "`no_identity`: a token or a certificate is required."
SEND_INPUT: Final = Operation(
    name="sendToInput", method="POST", path="/v1/nodes/{node}/inputs/{module}/{input}/messages",
    query=SendQuery, request=SendRequest, answer=Sent,
    headers={"Idempotency-Key": "Requests with the same key send the same message, until it expires."},
    summary="Send a message to a module's input: 202 once messaging has stored it, 200 once the node has (a hub without"
    " messaging).",
    refusals={
        400: "`bad_request`, `bad_message`, `bad_ttl`, `bad_input`, `bad_idempotency_key`, `too_slow`.",
        401: _NO_IDENTITY, 403: _WHO, 404: "`no_node`.",
        409: "`agent_too_old`: the node's agent does not support messages to modules.",
        413: "`too_large`: at most 256 KiB per message, 1 MiB and 100 messages per request.",
        429: "`too_many_waiting`: 1,000 messages or 16 MiB wait for the node.",
        503: "`starting`, `node_away` (a hub without messaging), `unanswered`, `messaging_unavailable`,"
        " `messaging_refuses`, `access_unknown`, `not_the_hub`, `busy`.",
    },
)  # fmt: skip
INPUT_STATE: Final = Operation(
    name="getInputMessage", method="GET", path="/v1/nodes/{node}/inputs/{module}/{input}/messages/{id}",
    query=StateQuery, answer=MessageState,
    summary="Get the state of a message that was sent to a module.",
    refusals={
        400: "`bad_request`.", 401: _NO_IDENTITY, 403: _WHO, 404: "`no_node`, or `no_message`: the message is unknown"
        " (or no longer known).",
        503: "`node_away`: only the node knows the state; `starting`, `access_unknown`, `messaging_unavailable`.",
    },
)  # fmt: skip
HEALTHZ: Final = Operation(
    name="healthz", method="GET", path="/healthz", media=TEXT, is_open=True, summary="The process answers."
)  # fmt: skip
READYZ: Final = Operation(
    name="readyz", method="GET", path="/readyz", media=TEXT, is_open=True, refusal=None,
    summary="The hub serves nodes. One line for each collection that is not being followed at the moment.",
    refusals={503: "Starting, stopping, or a collection that the hub decides by is not being followed."},
)  # fmt: skip
METRICS: Final = Operation(
    name="metrics", method="GET", path="/metrics", media=TEXT, is_open=True,
    summary="Counts and durations as Prometheus text.",
)  # fmt: skip

OPERATIONS: Final = (NODES, NODE, EXPLAIN, SEND_INPUT, INPUT_STATE, openapi.DESCRIBE)
"""Operations of ``http_listen``."""
HEALTH_OPERATIONS: Final = (HEALTHZ, READYZ, METRICS)
"""Operations of ``http_listen`` and ``health_listen``."""


def document() -> dict[str, Any]:
    """The OpenAPI document as a JSON value."""
    return openapi.document(
        (*OPERATIONS, *HEALTH_OPERATIONS),
        title="Fairlead hub",
        description="The state of every node, and messages to modules. Everything else is changed in the cluster.",
        parameters={
            "node": {"type": "string", "description": "Name of the edge node."},
            "module": {"type": "string", "description": "Name of the module.", "pattern": _INPUT_NAME},
            "input": {"type": "string", "description": "Name of its input.", "pattern": _INPUT_NAME},
            "id": {
                "type": "string",
                "description": "The id in the answer of the send call.",
                "pattern": "^[0-9a-f]{32}$",
            },
        },
        security={
            "mutualTLS": {
                "type": "mutualTLS",
                "description": "If the hub listens beyond loopback; no certificate is required on loopback.",
            },
            "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of the cluster, for messages to modules. A certificate is accepted, too.",
            },
        },
    )
