"""What goes up: messages and how far tables have read them, messages for modules, the state of a node."""

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

# Up: messages of the node, a batch a frame.


class Upstream(Header, frozen=True, kw_only=True, tag="upstream"):
    """Edge: a batch of one stream (content: JSON array of ``UpstreamMessage``)."""

    id: Id
    stream: Name
    encoding: Encoding = ""
    follows: bool = False
    """As this batch left, an earlier one of its stream was unanswered: if that one is put off, so is this."""
    traceparent: Name | None = None
    """The W3C trace context of the batch, where one is recorded."""
    topic: Name = ""
    """Messages of this topic alone, which was deferred: a stream with an order of its own, until it has caught up."""
    positions: bool = False
    """Say in the ack where the messages stand in their topics."""


class UpstreamMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One message as the edge stored it; the hub adds ``node`` from the link's identity (contract section 8)."""

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
"""Topics of one ``ask`` frame."""
TABLE_READERS_MAX = 32
"""Tables of one topic that an answer names."""


class AskTables(Header, frozen=True, kw_only=True, tag="ask"):
    """Edge: how far have tables read these topics?  One at a time; a nack says why not now."""

    id: Id
    topics: Annotated[list[Name], msgspec.Meta(max_length=TABLE_TOPICS_MAX)]


class Tables(Header, frozen=True, kw_only=True, tag="tables"):
    """Hub: the answer (content: JSON array of ``TopicTables``); a topic that is not named is none of the node's."""

    parent_id: Id = msgspec.field(name="parentID")


class TableReached(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a reader that fills a table has read, durably: all after ``start`` up to ``position`` is taken.

    ``rowless``: of all it took, how many messages got no row (dead letters, filtered, expired before they were read).
    """

    reader: Name
    table: Annotated[str, msgspec.Meta(max_length=REASON_CHARS_MAX)]
    start: Position
    position: Position
    batch: Count | None = None
    version: Count | None = None
    rowless: Count | None = None


class TopicTables(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic: which one it is (``service``, ``generation``), and its tables."""

    topic: Name
    service: Name
    generation: Count
    readers: Annotated[list[TableReached], msgspec.Meta(max_length=TABLE_READERS_MAX)] = []


# ---- inputs --------------------------------------------------------------------------------------------------------

# Down: messages for inputs of modules, and their state.

INPUT_BYTES_MAX = 256 * 1024
"""Size of one message as it is stored: body and properties, as for messages that modules publish."""
INPUT_TTL_SECONDS_MAX = 7 * 24 * 3600
INPUT_STATES_MAX = 64
"""Messages that one ``where`` frame asks for."""
INPUT_WINDOW = 16
"""``input`` frames of one session that may be unanswered at once; one for each input of a module."""
INPUT_NAME_CHARS_MAX = 128
INPUT_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z"
"""Name of a module, and of its input."""

InputId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
InputName = Annotated[str, msgspec.Meta(pattern=INPUT_NAME, max_length=INPUT_NAME_CHARS_MAX)]
InputState = Literal["delivered", "consumed", "expired", "evicted", "dead_lettered"]
"""``delivered``: durable at the edge; ``consumed``: acknowledged by its module."""


class Input(Header, frozen=True, kw_only=True, tag="input"):
    """Hub: put this message into the queue of a module's input, once for each ``message``.

    Content: the message as the edge stores those that modules publish, a JSON object.  Only to edges whose hello says
    ``inputs``.
    """

    id: Id
    message: InputId
    module: InputName
    input: InputName
    ttl_seconds: Annotated[float, msgspec.Meta(gt=0, le=INPUT_TTL_SECONDS_MAX)]
    """The rest of its time to live, when the frame is sent."""
    encoding: Encoding = ""


class AskInputs(Header, frozen=True, kw_only=True, tag="where"):
    """Hub: what is the state of these messages?"""

    id: Id
    messages: Annotated[list[InputId], msgspec.Meta(min_length=1, max_length=INPUT_STATES_MAX)]


class InputStates(Header, frozen=True, kw_only=True, tag="states"):
    """Edge: the answer (content: JSON array of ``InputReached``); one that is not named is not known (any more)."""

    parent_id: Id = msgspec.field(name="parentID")


class InputReached(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of one message."""

    message: InputId
    state: InputState


# ---- status --------------------------------------------------------------------------------------------------------

# What an edge reports of itself.


class Status(Header, frozen=True, kw_only=True, tag="status"):
    """Edge: its own account (content: JSON ``EdgeStatus``), for EdgeNode and EdgeRoutes status."""


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One priority of one endpoint at the edge."""

    endpoint: str
    priority: Place
    length: Count
    bytes: Count
    oldest_age_seconds: Seconds
    stalled_seconds: Seconds = 0.0
    """How long nothing of it was taken although a session was open; 0: it moves, or nothing waits."""
    stalled_by: Name = ""
    """Why, as the last answer said."""


TO_TABLE_WINDOW = 512
"""How many of the latest measures of a priority ``ToTable`` is of; all where there are fewer."""


class ToTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long messages of one priority take from their acceptance at the edge to a table, by the edge's own clock."""

    priority: Place
    measured: Count
    """Since the agent's start."""
    p50_seconds: Seconds
    p95_seconds: Seconds


class RouteError(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a route is quarantined; positions count from 1, ``endColumn`` is exclusive."""

    route: str
    message: str
    line: Place
    column: Place
    end_column: Place


class RoutesStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the edge made of one EdgeRoutes object, at which of its versions; ``digest`` is of the content it judged."""

    uid: str
    resource_version: str
    accepted: list[str]
    errors: list[RouteError]
    topics: list[str] = []
    digest: str = ""
    warnings: list[RouteError] = []


class EdgeStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an edge reports of itself; ``routes`` maps EdgeRoutes object names."""

    held: Count
    queues: list[QueueStatus] = []
    routes: dict[str, RoutesStatus] = {}
    dead_letters: Count = 0
    store_bytes: Count = 0
    delivery: dict[str, str] = {}
    """In words, when messages go again: to the hub (``upstream``), to modules (``brokered``)."""
    to_table: list[ToTable] = []
    """By priority; empty: nothing was measured since its start."""
    authorities: Name = ""
    """Which authorities it believes (``identity.bundle.digest``); empty: it has not said."""


# ---- reported ------------------------------------------------------------------------------------------------------

# Status of objects that programs on a node report: which of it is allowed, and the newest of each object.

STATUS_BYTES_MAX = 256 * 1024
"""Size of the status of one object, as JSON."""
STATUS_RULES_MAX = 1024
"""Entries of SyncRules that a node gets to know."""
STATUS_RULES_BYTES_MAX = 1024 * 1024
FIELD_MANAGER_PREFIX = "fairlead-edge-"
FIELD_MANAGER_CHARS_MAX = 128
"""The limit of Kubernetes."""

Force = Literal["", "cluster", "all"]
_FORCES: tuple[Force, ...] = ("", "cluster", "all")


class LabelTerm(msgspec.Struct, frozen=True, array_like=True):
    """One requirement of a label selector."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class StatusRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One entry of a SyncRule that sends objects to this node; ``allowed``: their status may come from it.

    ``namespaces`` None: all.  What the entry selects besides (``bound``, ``referenced``) the hub alone judges.
    """

    rule: str
    group: str = ""
    kind: str
    namespaces: list[str] | None = None
    labels: list[LabelTerm] = []
    allowed: bool = False


class StatusRules(Header, frozen=True, kw_only=True, tag="rules"):
    """Hub: of which objects status is taken from now on (content: JSON array of ``StatusRule``, ``digest`` its hex
    SHA-256; both empty: of none).  Only to edges whose hello says which rules they hold."""

    digest: Name = ""
    encoding: Encoding = ""


class Report(Header, frozen=True, kw_only=True, tag="report"):
    """Edge: the status of this object, as far as programs of this node own it (content: a JSON object).

    Only to hubs whose welcome says that they take it, and one at a time for each object; answered by ack (the API
    server has it) or nack.  ``force``: what it may take over from others: nothing, what was written in the cluster,
    or also what other nodes own.
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
    """Under which name the hub writes what a node reported."""
    name = f"{FIELD_MANAGER_PREFIX}{node}"
    if len(name) <= FIELD_MANAGER_CHARS_MAX:
        return name
    end = sha256(node.encode()).hexdigest()[:8]
    return f"{name[: FIELD_MANAGER_CHARS_MAX - 9]}-{end}"
