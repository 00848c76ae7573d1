"""Frames for messages of a node, tables' progress, messages for modules, and the state of a node."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Literal

import msgspec

from fairlead_wire.message.session import (
    REASON_CHARS_MAX,
    Count,
    Encoding,
    Epoch,
    Header,
    Id,
    Name,
    Place,
    Position,
    Seconds,
    Uid,
)

# ---- upstream ------------------------------------------------------------------------------------------------------

# Messages of the node, one batch per frame.


class Upstream(Header, frozen=True, kw_only=True, tag="upstream"):
    """Edge: a batch of one stream (content: JSON array of ``UpstreamMessage``)."""

    id: Id
    stream: Name
    encoding: Encoding = ""
    follows: bool = False
    """An earlier batch of this stream was still unanswered: if that one is refused for now, so is this one."""
    traceparent: Name | None = None
    """The W3C trace context of the batch, if one is recorded."""
    topic: Name = ""
    """While a deferred topic catches up: all messages are of this topic, which is ordered as a separate stream."""
    positions: bool = False
    """Requests the messages' positions in the ack."""


class UpstreamMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One message as the edge stored it; the hub adds ``node`` from the identity of the link."""

    id: str
    topic: str
    """``namespace/name``."""
    epoch: Epoch
    sequence: Epoch
    source: str
    priority: Place
    enqueued_at: str
    properties: dict[str, str | None] = {}
    system_properties: dict[str, str | None] = {}
    body: msgspec.Raw = msgspec.Raw(b"null")
    body_base64: str | None = None


# ---- tables --------------------------------------------------------------------------------------------------------

# How far tables have read the topics of a node.

TABLE_TOPICS_MAX = 64
"""Most topics in one ``ask`` frame."""
TABLE_READERS_MAX = 32
"""Most tables of one topic in an answer."""


class AskTables(Header, frozen=True, kw_only=True, tag="ask"):
    """Edge: how far have tables read these topics?  One request at a time; a nack means not now."""

    id: Id
    topics: Annotated[list[Name], msgspec.Meta(max_length=TABLE_TOPICS_MAX)]


class Tables(Header, frozen=True, kw_only=True, tag="tables"):
    """Hub: the answer to ``ask`` (content: JSON array of ``TopicTables``), without topics that the node may not use."""

    parent_id: Id = msgspec.field(name="parentID")


class TableReached(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a table's reader has read durably: everything after ``start``, up to and including ``position``.

    ``rowless``: how many of these messages have no row (dead letters, filtered, or expired before they were read).
    """

    reader: Name
    table: Annotated[str, msgspec.Meta(max_length=REASON_CHARS_MAX)]
    start: Position
    position: Position
    batch: Count | None = None
    version: Count | None = None
    rowless: Count | None = None


class TopicTables(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic, identified by ``service`` and ``generation``, and its tables."""

    topic: Name
    service: Name
    generation: Count
    readers: Annotated[list[TableReached], msgspec.Meta(max_length=TABLE_READERS_MAX)] = []


# ---- inputs --------------------------------------------------------------------------------------------------------

# Messages for the inputs of modules, and their state.

INPUT_BYTES_MAX = 256 * 1024
"""Largest stored message, body and properties together; the same as for messages that modules publish."""
INPUT_TTL_SECONDS_MAX = 7 * 24 * 3600
INPUT_STATES_MAX = 64
"""Most messages in one ``where`` frame."""
INPUT_WINDOW = 16
"""``input`` frames that may be unanswered at once in a session, at most one for each input of a module."""
INPUT_NAME_CHARS_MAX = 128
INPUT_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z"
"""Name of a module or of its input."""

InputId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
InputName = Annotated[str, msgspec.Meta(pattern=INPUT_NAME, max_length=INPUT_NAME_CHARS_MAX)]
InputState = Literal["delivered", "consumed", "expired", "evicted", "dead_lettered"]
"""``delivered``: durable at the edge; ``consumed``: acknowledged by its module."""


class Input(Header, frozen=True, kw_only=True, tag="input"):
    """Hub: put this message into the queue of a module's input, once for each id ``message``.

    The content is a JSON object, in the form in which the edge stores messages that modules publish.  Only for edges
    whose hello has ``inputs``.
    """

    id: Id
    message: InputId
    module: InputName
    input: InputName
    ttl_seconds: Annotated[float, msgspec.Meta(gt=0, le=INPUT_TTL_SECONDS_MAX)]
    """Remaining time to live when the frame is sent."""
    encoding: Encoding = ""


class AskInputs(Header, frozen=True, kw_only=True, tag="where"):
    """Hub: what is the state of these messages?"""

    id: Id
    messages: Annotated[list[InputId], msgspec.Meta(min_length=1, max_length=INPUT_STATES_MAX)]


class InputStates(Header, frozen=True, kw_only=True, tag="states"):
    """Edge: the answer to ``where`` (content: JSON array of ``InputReached``), without unknown messages."""

    parent_id: Id = msgspec.field(name="parentID")


class InputReached(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of one message."""

    message: InputId
    state: InputState


# ---- status --------------------------------------------------------------------------------------------------------

# What an edge reports about itself.


class Status(Header, frozen=True, kw_only=True, tag="status"):
    """Edge: its own state (content: JSON ``EdgeStatus``), for the status of EdgeNode and EdgeRoutes."""


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The queue of one priority of one endpoint at the edge."""

    endpoint: str
    priority: Place
    length: Count
    bytes: Count
    oldest_age_seconds: Seconds
    stalled_seconds: Seconds = 0.0
    """How long nothing was accepted from it although a session was open; 0: it moves, or is empty."""
    stalled_by: Name = ""
    """The reason in the last answer."""


TO_TABLE_WINDOW = 512
"""``ToTable`` describes at most this many of the latest measurements of a priority."""


class ToTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long messages of one priority take from acceptance at the edge to a table, measured by the edge's clock."""

    priority: Place
    measured: Count
    """Measurements since the agent started."""
    p50_seconds: Seconds
    p95_seconds: Seconds


class RouteError(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a route cannot be used; positions count from 1, ``endColumn`` is exclusive."""

    route: str
    message: str
    line: Place
    column: Place
    end_column: Place


class RoutesStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of compiling one version of an EdgeRoutes object; ``digest`` identifies the compiled content."""

    uid: str
    resource_version: str
    accepted: list[str]
    errors: list[RouteError]
    topics: list[str] = []
    digest: str = ""
    warnings: list[RouteError] = []


class EdgeStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an edge reports about itself; ``routes`` is keyed by the names of EdgeRoutes objects."""

    held: Count
    queues: list[QueueStatus] = []
    routes: dict[str, RoutesStatus] = {}
    dead_letters: Count = 0
    store_bytes: Count = 0
    delivery: dict[str, str] = {}
    """The retry policies as text: to the hub (``upstream``) and to modules (``brokered``)."""
    to_table: list[ToTable] = []
    """By priority; empty: nothing was measured since the agent started."""
    authorities: Name = ""
    """Digest of the authorities it trusts (``identity.authority_bundle.digest``); empty: not reported."""


# ---- reported ------------------------------------------------------------------------------------------------------

# Status of objects that programs on a node report: what is allowed, and the reports.

STATUS_BYTES_MAX = 256 * 1024
"""Largest status of one object, as JSON."""
STATUS_RULES_MAX = 1024
"""Most entries of SyncRules that a node is sent."""
STATUS_RULES_BYTES_MAX = 1024 * 1024
FIELD_MANAGER_PREFIX = "fairlead-edge-"
FIELD_MANAGER_CHARS_MAX = 128
"""Kubernetes' limit."""

Force = Literal["", "cluster", "all"]
_FORCES: tuple[Force, ...] = ("", "cluster", "all")


class LabelTerm(msgspec.Struct, frozen=True, array_like=True):
    """One requirement of a label selector."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class StatusRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One entry of a SyncRule that sends objects to this node; ``allowed``: the node may report their status.

    ``namespaces`` None: all.  Other selections (``bound``, ``referenced``) are evaluated by the hub alone.
    """

    rule: str
    group: str = ""
    kind: str
    namespaces: list[str] | None = None
    labels: list[LabelTerm] = []
    allowed: bool = False


class StatusRules(Header, frozen=True, kw_only=True, tag="rules"):
    """Hub: the objects whose status it accepts from now on (content: JSON array of ``StatusRule``).

    ``digest`` is the hex SHA-256 of the content; both are empty if no status is accepted.  Only for edges whose hello
    has ``status_rules``.
    """

    digest: Name = ""
    encoding: Encoding = ""


class Report(Header, frozen=True, kw_only=True, tag="report"):
    """Edge: the part of an object's status that programs on this node own (content: a JSON object).

    Only for hubs whose welcome has ``reports``, and one at a time for each object; answered by ack (stored by the API
    server) or nack.  ``force`` says which fields it may take over from other managers: "" none, "cluster" those written
    in the cluster, "all" also those of other nodes.
    """

    id: Id
    resource: str
    uid: Uid
    force: Force = ""
    encoding: Encoding = ""


def stronger(first: Force, second: Force) -> Force:
    """The one of two ``force`` values that takes over more."""
    return max(first, second, key=_FORCES.index)


def field_manager(node: str) -> str:
    """The field manager under which the hub applies what a node reported."""
    name = f"{FIELD_MANAGER_PREFIX}{node}"
    if len(name) <= FIELD_MANAGER_CHARS_MAX:
        return name
    end = sha256(node.encode()).hexdigest()[:8]
    return f"{name[: FIELD_MANAGER_CHARS_MAX - 9]}-{end}"
