"""What the hub answers over HTTP: every call once, and the shapes of its answers.

OPERATIONS ──▶ one handler each (``io.http``)
           ──▶ the document at /openapi.json

A change of an answer is a change of its struct here: a test reads real answers with them, and takes no other field.
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
    """Of an answer, read as it is written."""


class Stale(ResponseBody, frozen=True, kw_only=True):
    """A collection of the API that is not followed at the moment."""

    collection: str
    since: str
    seconds: float
    reason: str


class RecordsRefused(ResponseBody, frozen=True, kw_only=True, omit_defaults=True):
    """Records that the API server does not take; ``since`` and ``reason`` of the oldest."""

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
    """From acceptance at the node to a table, by the node's own clock: of messages of one priority.

    Of the latest ``window`` that were followed, of ``measured`` since its agent's start; the newest heard ``as_of``.
    """

    priority: int
    measured: int
    window: int
    p50_seconds: float
    p95_seconds: float
    as_of: str = ""


class NodeRow(ResponseBody, frozen=True, kw_only=True):
    """Where one node stands."""

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
    """Messages stored at the node, as it reported last."""
    dead_letters: int
    paused: str
    identity: str
    obeyed_fence: int | None
    """The fencing number it says it has obeyed, where it is refused because the hub's is lower."""
    deletion_guard: Guard | None
    waiting_for: str
    kept: int
    kept_unknown: int
    """Of those: objects of which it is not known whether they are wanted, because their kind cannot be listed."""
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
    """On its way, and at which step."""

    key: str
    seconds: float
    step: str


class ParkedObject(ResponseBody, frozen=True, kw_only=True):
    """Given up for now, and why."""

    key: str
    code: str
    reason: str
    retries: int
    next_retry_seconds: float


class KeptObject(ResponseBody, frozen=True, kw_only=True):
    """Not wanted and not removed yet, and why."""

    key: str
    reason: str


class NodeDetail(NodeRow, frozen=True, kw_only=True, omit_defaults=True):
    """One node in detail; the lists are those of its session, at most a hundred each."""

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
    """Where one object is on its way to one node: ``code`` for programs, ``answer`` for people."""

    node: str
    key: str
    code: Code
    answer: str
    last_delivered: str | None = None
    """When the node last acknowledged it as durable, RFC 3339."""
    wanted: Version | None = None
    held: Version | None = None


class MessageState(ResponseBody, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a message: accepted (kept in messaging), delivered (durable at the node), consumed (its module
    acknowledged it), expired, evicted, dead_lettered, or refused by the node for ``reason``."""

    id: str
    state: State
    reason: str = ""
    expires_in_seconds: float | None = None
    """While it is accepted."""


class Sent(ResponseBody, frozen=True, kw_only=True):
    """``results`` in the order of the request; ``id`` and ``state`` are those of the first."""

    id: str
    state: State
    results: list[MessageState]


class SendQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Of sending: ``ttl`` in seconds, of messages that name none."""

    ttl: Ttl = TTL_SECONDS_DEFAULT


class StateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Waits up to ``wait`` seconds until the message is as far as ``until``, or nothing more becomes of it."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    until: Literal["delivered", "consumed"] = "consumed"


class ExplainQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Of ``/v1/explain``."""

    node: str
    kind: str
    name: str
    namespace: str = ""


_INPUT_NAME: Final = message.INPUT_NAME.replace("\\Z", "$")
_PAGES = "A page of a browser asked; programs that are no browser are answered."

NODES: Final = Operation(
    name="listNodes", method="GET", path="/v1/nodes", answer=Nodes, refusals={403: _PAGES},
    summary="Every edge node: connected or away, what it should hold and holds, what is on its way, parked or kept.",
)  # fmt: skip
NODE: Final = Operation(
    name="getNode", method="GET", path="/v1/nodes/{node}", answer=NodeDetail,
    summary="One node in detail, with the objects that are pending, parked or kept.",
    refusals={403: _PAGES, 404: "`no_node`: there is no edge Node of this name."},
)  # fmt: skip
EXPLAIN: Final = Operation(
    name="explain", method="GET", path="/v1/explain", query=ExplainQuery, answer=Explained,
    summary="Why an object is on a node or not: the step of its path at which it stands, and the reason.",
    refusals={400: "`missing_parameter`: node, kind and name are needed.", 403: _PAGES},
)  # fmt: skip
_WHO: Final = "`forbidden`: who asks may not, or is a page of a browser."
_NO_IDENTITY: Final = "`no_identity`: a token or a certificate is needed."
SEND_INPUT: Final = Operation(
    name="sendToInput", method="POST", path="/v1/nodes/{node}/inputs/{module}/{input}/messages",
    query=SendQuery, request=SendRequest, answer=Sent,
    headers={"Idempotency-Key": "The same again is the same message, for as long as it lives."},
    summary="Send a message to a module's input: 202 once messaging keeps it, 200 once the node does (a hub without"
    " messaging).",
    refusals={
        400: "`bad_request`, `bad_message`, `bad_ttl`, `bad_input`, `bad_idempotency_key`, `too_slow`.",
        401: _NO_IDENTITY, 403: _WHO, 404: "`no_node`.",
        409: "`agent_too_old`: the node's agent knows no such messages.",
        413: "`too_large`: 256 KiB a message, 1 MiB and 100 messages a request.",
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
        400: "`bad_request`.", 401: _NO_IDENTITY, 403: _WHO, 404: "`no_node`, or `no_message`: nothing is known of it"
        " (any more).",
        503: "`node_away`: only the node knows; `starting`, `access_unknown`, `messaging_unavailable`.",
    },
)  # fmt: skip
HEALTHZ: Final = Operation(
    name="healthz", method="GET", path="/healthz", media=TEXT, is_open=True, summary="The process answers."
)  # fmt: skip
READYZ: Final = Operation(
    name="readyz", method="GET", path="/readyz", media=TEXT, is_open=True, refusal=None,
    summary="The hub serves nodes; a line for each collection that is not followed at the moment.",
    refusals={503: "Starting, stopping, or what the hub decides by is not followed."},
)  # fmt: skip
METRICS: Final = Operation(
    name="metrics", method="GET", path="/metrics", media=TEXT, is_open=True,
    summary="Counts and durations as Prometheus text.",
)  # fmt: skip

OPERATIONS: Final = (NODES, NODE, EXPLAIN, SEND_INPUT, INPUT_STATE, openapi.DESCRIBE)
"""Of ``http_listen``."""
HEALTH_OPERATIONS: Final = (HEALTHZ, READYZ, METRICS)
"""Of ``http_listen`` and ``health_listen``."""


def document() -> dict[str, Any]:
    """The OpenAPI document, as JSON values."""
    return openapi.document(
        (*OPERATIONS, *HEALTH_OPERATIONS),
        title="Fairlead hub",
        description="Where every node stands, and messages to modules. All else is changed in the cluster.",
        parameters={
            "node": {"type": "string", "description": "Name of the edge node."},
            "module": {"type": "string", "description": "Name of the module.", "pattern": _INPUT_NAME},
            "input": {"type": "string", "description": "Name of its input.", "pattern": _INPUT_NAME},
            "id": {"type": "string", "description": "As sending answered it.", "pattern": "^[0-9a-f]{32}$"},
        },
        security={
            "mutualTLS": {
                "type": "mutualTLS",
                "description": "Where the hub listens beyond loopback; on loopback no certificate is asked for.",
            },
            "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of the cluster, to send to modules; a certificate will do, too.",
            },
        },
    )
