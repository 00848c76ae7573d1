"""The headers that travel on the link: one struct for each verb, one frame each.

A frame is a header and, for some verbs, a *content* of bytes that the codec passes through untouched
(an object's canonical JSON, a batch of upstream messages, bucket sums): encoded and compressed once,
sent to any number of nodes.  An acknowledgement keeps the seed's meaning: ``operation`` is "ack" and
``parentID`` is the id of the message it answers (seed: reliable message delivery, "ACK message Format").

Ids are integers from 1, unique within a session and direction.  Times are seconds, sizes bytes.

    edge → hub   hello · buckets · entries · ack · nack · progress · upstream · ask · status · renew
                 keepalive
    hub → edge   welcome · refuse · compare · list · update · delete · chunk · ack · nack · tables · issued
                 authorities · keepalive

A device without a certificate speaks another conversation, and nothing of the above:

    device → hub   authorities · join · late · prove
    hub → device   authorities · challenge · issued · refuse
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

PROTOCOL = 1
NAME_CHARS_MAX = 256
"""UIDs, versions, digests: names that are no paths."""

Id = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""Also a fence: exact in every JSON reader's number."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Place = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A line, a column, an index."""
Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
REASON_CHARS_MAX = 1024
"""Of a peer's explanation that is written down."""
_UID = r"^[A-Za-z0-9_-]{1,128}\Z"
Uid = Annotated[str, msgspec.Meta(pattern=_UID)]
"""Of an object an edge names: the hub makes names and paths of it.  No dot: ``<node>.<uid>`` has one meaning only."""


def is_uid(text: str) -> bool:
    """May an object be held under this?"""
    return re.match(_UID, text) is not None


Encoding = Literal["", "zstd"]


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="operation", rename="camel", omit_defaults=True):
    """Base of all headers; ``operation`` on the wire is the verb."""


# ---- opening -------------------------------------------------------------------------------------


class Hello(Header, frozen=True, kw_only=True, tag="hello"):
    """The edge opens: who it is, which opening of its store this is, and a digest of all it holds."""

    protocol: int = PROTOCOL
    node: Name
    agent: Name
    store_epoch: Epoch
    """Random 53-bit number, made anew each time the edge opens its store."""
    fence: Epoch
    """The highest fencing number of a hub this edge has ever obeyed; 0 = none yet."""
    bits: Place
    held: Count
    root: Name


class Welcome(Header, frozen=True, kw_only=True, tag="welcome"):
    """The hub accepts.  An edge must leave a hub whose ``fence`` is below the highest it has seen."""

    protocol: int = PROTOCOL
    hub: str
    fence: Epoch
    session: Id
    keepalive_seconds: Seconds
    frame_bytes_max: Count
    upstream_window: Place
    """How many upstream batches may be unacknowledged at once."""
    renew_after_seconds: Seconds | None = None
    """From now, by the edge's monotonic clock: then ask for a new certificate.  None: whoever made it renews it."""
    tables: bool = False
    """This hub answers ``ask``; hubs before 0.3 do not know that frame."""


class Refuse(Header, frozen=True, kw_only=True, tag="refuse"):
    """The hub ends the session (now or later) and says why; ``retry_after`` None = do not come back by yourself."""

    code: Name
    """One word for programs; an edge that does not know it obeys ``retry_after`` all the same."""
    reason: str
    retry_after: Seconds | None = None


# ---- certificates --------------------------------------------------------------------------------


class AskAuthorities(Header, frozen=True, kw_only=True, tag="authorities"):
    """Device: which authorities does the hub's certificate belong to?  It compares them with the pin of its token."""


class Authorities(Header, frozen=True, kw_only=True, tag="authorities"):
    """Hub: the authorities to trust from now on (content: PEM; in a session empty: as they are).

    In a session only to edges whose status says which they hold: others do not know this frame.
    """

    certificates: str = ""
    """PEM, in a session: what this hub shows now, its own first.  Who believes the new authorities must believe it."""
    renew_after_seconds: Seconds | None = None
    """Another authority signs nodes now: ask for a certificate after so long, unless it is due before."""


class Join(Header, frozen=True, kw_only=True, tag="join"):
    """Device: admit me with this token (content: certificate request, DER)."""

    token_id: Name
    secret: Name
    node: Name = ""
    """Empty: the node of the token."""
    agent: Name


class Late(Header, frozen=True, kw_only=True, tag="late"):
    """Device: my certificate ended while I was away; I can prove that its key is mine."""

    node: Name
    agent: Name
    store_epoch: Epoch
    """Of its last session."""
    fence: Epoch


class Challenge(Header, frozen=True, kw_only=True, tag="challenge"):
    """Hub: sign this."""

    nonce: Name
    """Hex of 32 random bytes."""


class Prove(Header, frozen=True, kw_only=True, tag="prove"):
    """Device: the answer to a challenge (content: JSON ``Proof``)."""


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``signature`` by the old key over ``fairlead-late/1``, 0, nonce, SHA-256 of the hub's certificate (DER), SHA-256
    of the request (DER)."""

    certificates: str
    """PEM: the old certificate, and its chain where it has one."""
    request: str
    """The certificate request, base64 of DER."""
    signature: str
    """Base64."""


class Renew(Header, frozen=True, kw_only=True, tag="renew"):
    """Edge, in a session: a new certificate for a new key (content: certificate request, DER)."""

    id: Id


class Issued(Header, frozen=True, kw_only=True, tag="issued"):
    """Hub: the answer to ``join``, ``prove`` (0) or ``renew`` (content: JSON ``IssuedCertificates``)."""

    parent_id: Id = msgspec.field(name="parentID", default=0)
    node: Name
    expires: Name
    """RFC 3339."""
    renew_after_seconds: Seconds | None = None


class IssuedCertificates(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """PEM each."""

    certificates: str
    """The node's, then what leads to the authority that the hub trusts."""
    authorities: str
    """Those of the hub's certificate."""


# ---- comparing what the edge holds with what it should hold --------------------------------------


class Compare(Header, frozen=True, kw_only=True, tag="compare"):
    """Hub: send your bucket sums at this granularity.  May be asked again at any time (an audit)."""

    id: Id
    bits: Place


class Buckets(Header, frozen=True, kw_only=True, tag="buckets"):
    """Edge: the sums (content, ``digest.Buckets.encode``) as of one snapshot of the store."""

    parent_id: Id = msgspec.field(name="parentID")
    bits: Place


class ListBuckets(Header, frozen=True, kw_only=True, tag="list"):
    """Hub: name the entries of these buckets."""

    id: Id
    bits: Place
    buckets: list[Place]


class Entries(Header, frozen=True, kw_only=True, tag="entries"):
    """Edge: entries (content: JSON array of ``Entry``); ``last`` on the final frame of one answer."""

    parent_id: Id = msgspec.field(name="parentID")
    last: bool
    encoding: Encoding = ""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One object the edge holds."""

    resource: str
    uid: Uid
    digest: Name
    resource_version: Name


# ---- down: state ---------------------------------------------------------------------------------


class Update(Header, frozen=True, kw_only=True, tag="update"):
    """Hub: hold this object (content: its canonical JSON).  A new UID replaces the old atomically."""

    id: Id
    resource: str
    uid: str
    resource_version: str
    digest: str
    """Hex SHA-256 of the unpacked content; the edge checks it before it stores."""
    encoding: Encoding = ""
    chunks: Place = 0
    """0: the content is in this frame.  n: it follows in n ``chunk`` frames with this id."""
    traceparent: Name | None = None
    """As in ``Upstream``: of the change that is delivered."""


class Chunk(Header, frozen=True, kw_only=True, tag="chunk"):
    """Hub: part ``index`` (from 0) of the content of update ``id``."""

    id: Id
    index: Place


class Progress(Header, frozen=True, kw_only=True, tag="progress"):
    """Edge: ``chunks`` parts of that update have arrived; restarts the sender's ack timer."""

    parent_id: Id = msgspec.field(name="parentID")
    chunks: Place


class Delete(Header, frozen=True, kw_only=True, tag="delete"):
    """Hub: forget this object if it still has this UID; another UID under the name stays."""

    id: Id
    resource: str
    uid: str


# ---- up: facts -----------------------------------------------------------------------------------


class Upstream(Header, frozen=True, kw_only=True, tag="upstream"):
    """Edge: a batch of one stream (content: JSON array of ``UpstreamMessage``)."""

    id: Id
    stream: Name
    encoding: Encoding = ""
    follows: bool = False
    """As this batch left, an earlier one of its stream was unanswered: if that one is put off, so is this."""
    traceparent: Name | None = None
    """The W3C trace context of the batch, where one is recorded; peers before 0.2 pass over it."""
    positions: bool = False
    """Say in the ack where the messages stand in their topics; hubs before 0.3 pass over it."""


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


Position = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{40})?\Z")]
"""Of a message in its topic, hex: ids of messaging, in their order.  Empty: it is not known."""


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
    """Of one topic: which one it is (``service``, ``generation``), and its tables."""

    topic: Name
    service: Name
    generation: Count
    readers: Annotated[list[TableReached], msgspec.Meta(max_length=TABLE_READERS_MAX)] = []


# ---- both ways -----------------------------------------------------------------------------------


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A message inside an acknowledged batch that will never be taken: index in the batch, code, reason."""

    index: Place
    code: str
    reason: str


class TopicPosition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the messages of one topic and epoch of a batch stand; ``index`` is the first of them in the batch.

    With ``first`` they have consecutive positions from there on, in order; else each stands at ``newest`` or before.
    """

    index: Place
    service: Name
    generation: Count
    first: Position = ""
    newest: Position


class Ack(Header, frozen=True, kw_only=True, tag="ack"):
    """The message ``parentID`` is durable here.

    ``cumulative``: so is every earlier one of this session that was not nacked.  ``refused`` (upstream only):
    these messages of the batch were not stored and never will be; the edge dead-letters them.
    """

    parent_id: Id = msgspec.field(name="parentID")
    cumulative: bool = False
    refused: list[Refused] = []
    held_seconds: Seconds | None = None
    """Upstream only: between the batch's arrival and this answer; the rest of the time it was on the link."""
    positions: list[TopicPosition] = []
    """Upstream only, where the batch asked for them; of topics that are not named it is not known."""


class Nack(Header, frozen=True, kw_only=True, tag="nack"):
    """The message ``parentID`` was not taken.  ``permanent``: the same again would fail again."""

    parent_id: Id = msgspec.field(name="parentID")
    code: Name
    reason: str
    permanent: bool = False
    retry_after: Seconds | None = None
    scope: Literal["stream", "hub"] = "stream"
    """Upstream only.  ``hub``: nothing would be taken now, of whatever stream."""
    held_seconds: Seconds | None = None
    """As in ``Ack``."""


class Keepalive(Header, frozen=True, kw_only=True, tag="keepalive"):
    """I am here.  The edge speaks first; the hub answers with the same."""


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


class ToTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long messages of one priority take from their acceptance at the edge to a table, by the edge's own clock."""

    priority: Place
    measured: Count
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
    """What the edge made of one EdgeRoutes object, at which of its versions.

    Agents before 0.2 say neither ``digest`` (of the content that was judged) nor ``warnings``.
    """

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
    """Which authorities it believes (``identity.bundle.digest``); agents before 0.3 do not say it."""


FromEdge = Hello | Buckets | Entries | Ack | Nack | Progress | Upstream | AskTables | Status | Renew | Keepalive
FromHub = (
    Welcome
    | Refuse
    | Compare
    | ListBuckets
    | Update
    | Delete
    | Chunk
    | Ack
    | Nack
    | Tables
    | Issued
    | Authorities
    | Keepalive
)
FromDevice = AskAuthorities | Join | Late | Prove
"""Without a client certificate."""
ToDevice = Authorities | Challenge | Issued | Refuse
AnyHeader = FromEdge | FromHub | FromDevice | ToDevice
