"""The session and what goes down in it: opening, comparison, objects, their acknowledgements, certificates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Final, Literal

import msgspec

# ---- headers --------------------------------------------------------------------------------------------------------

# What every header has, and the bounded types of its fields.

PROTOCOL = 1
NAME_CHARS_MAX = 256
"""UIDs, versions, digests: names that are not paths."""
REASON_CHARS_MAX = 1024
"""Length of a peer's explanation that is recorded."""

Id = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""Also a fencing number: every JSON parser represents it exactly."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Place = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A line, a column, an index."""
Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
_UID = r"^[A-Za-z0-9_-]{1,128}\Z"
Uid = Annotated[str, msgspec.Meta(pattern=_UID)]
"""UID of an object that an edge names: part of names and paths in the hub.  No dot: ``<node>.<uid>`` is unique."""
Encoding = Literal["", "zstd"]
Position = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{40})?\Z")]
"""Position of a message in its topic: the id in messaging, hex, ordered.  Empty: unknown."""


def is_uid(text: str) -> bool:
    """Is this a valid UID of an object?"""
    return re.match(_UID, text) is not None


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="operation", rename="camel", omit_defaults=True):
    """Base of all headers; ``operation`` on the wire is the verb."""


# ---- opening -------------------------------------------------------------------------------------------------------

# How a session opens, and how the hub ends it.


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
    inputs: bool = False
    """This edge takes ``input`` and answers ``where``."""
    status_rules: Name | None = None
    """Digest of the ``rules`` it holds; None: it does not take that frame."""


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
    """From now, by the edge's monotonic clock: then ask for a new certificate.  None: the one who made it renews it."""
    tables: bool = False
    """This hub answers ``ask``."""
    reports: bool = False
    """This hub takes ``report``."""


class Refuse(Header, frozen=True, kw_only=True, tag="refuse"):
    """The hub ends the session (now or later) and says why; ``retry_after`` None = do not come back by yourself."""

    code: Name
    """One word for programs; an edge that does not know it obeys ``retry_after`` all the same."""
    reason: str
    retry_after: Seconds | None = None
    fence: Epoch | None = None
    """With ``stale_hub``, from a hub that holds the Lease now: its number.  A node that hears nothing higher for
    ``[link] stale_hub_seconds`` gives up the number it has obeyed."""
    approved: bool = False
    """With ``fence``: a person approved that this node gives up the number of its hello at once."""


# ---- comparison ----------------------------------------------------------------------------------------------------

# Comparing what the edge holds with what it should hold.


class Compare(Header, frozen=True, kw_only=True, tag="compare"):
    """Hub: send your bucket sums at this granularity.  May be asked again at any time (an audit)."""

    id: Id
    bits: Place


class BucketSums(Header, frozen=True, kw_only=True, tag="buckets"):
    """Edge: the sums (content, ``digest.Buckets.encode``) as of one snapshot of the store."""

    parent_id: Id = msgspec.field(name="parentID")
    bits: Place


class ListBuckets(Header, frozen=True, kw_only=True, tag="list"):
    """Hub: name the entries of these buckets."""

    id: Id
    bits: Place
    buckets: list[Place]


class Entries(Header, frozen=True, kw_only=True, tag="entries"):
    """Edge: entries (content: JSON array of ``HeldEntry``); ``last`` on the final frame of one answer."""

    parent_id: Id = msgspec.field(name="parentID")
    last: bool
    encoding: Encoding = ""


class HeldEntry(msgspec.Struct, frozen=True, array_like=True):
    """One object the edge holds."""

    resource: str
    uid: Uid
    digest: Name
    resource_version: Name


# ---- objects -------------------------------------------------------------------------------------------------------

# Down: the state of objects.


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


# ---- answers -------------------------------------------------------------------------------------------------------

# Both ways: what was taken, what was not, and that the peer is there.


class RefusedItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message inside an acknowledged batch that will never be taken: index in the batch, code, reason."""

    index: Place
    code: str
    reason: str


class Deferred(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A topic that takes nothing now: the message at ``index`` and those behind it for the same topic are not stored,
    and go again.  ``in_doubt``: they may have been stored all the same."""

    index: Place
    code: Name
    reason: str
    retry_after: Seconds | None = None
    in_doubt: bool = False


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
    refused: list[RefusedItem] = msgspec.field(default_factory=list)
    held_seconds: Seconds | None = None
    """Upstream only: between the batch's arrival and this answer; the rest of the time it was on the link."""
    positions: list[TopicPosition] = msgspec.field(default_factory=list)
    """Upstream only, where the batch asked for them; of topics that are not named it is not known."""
    deferred: list[Deferred] = msgspec.field(default_factory=list)
    """Upstream only: the other messages are durable or refused."""

    def deferred_by_index(self, topics: Sequence[str]) -> dict[int, Deferred]:
        """Which messages of a batch are deferred; ``topics`` are those of its messages, in order."""
        return {
            index: each
            for each in self.deferred
            for index in range(each.index, len(topics))
            if topics[index] == topics[each.index]
        }


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
    stored: list[Place] = msgspec.field(default_factory=list)
    """Upstream only: these messages of the batch are durable all the same; the others go again."""
    positions: list[TopicPosition] = msgspec.field(default_factory=list)
    """As in ``Ack``, of the messages in ``stored``."""


class Keepalive(Header, frozen=True, kw_only=True, tag="keepalive"):
    """I am here.  The edge speaks first; the hub answers with the same."""


# ---- certificates --------------------------------------------------------------------------------------------------

# How a device gets its certificate and renews it, and learns whom to trust.


NONCE_BYTES: Final = 32
_LATE_PREFIX: Final = b"fairlead-late/1\0"


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
    """The one of its last session."""
    fence: Epoch


class Challenge(Header, frozen=True, kw_only=True, tag="challenge"):
    """Hub: sign this."""

    nonce: Name
    """Hex of 32 random bytes."""


class Prove(Header, frozen=True, kw_only=True, tag="prove"):
    """Device: the answer to a challenge (content: JSON ``Proof``)."""


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``signature`` is by the old key, over ``late_proof``."""

    certificates: str
    """PEM: the old certificate, and its chain where it has one."""
    request: str
    """The certificate request, base64 of DER."""
    signature: str
    """Base64."""


def late_proof(nonce: bytes, *, hub_certificate: bytes, request: bytes) -> bytes:
    """The bytes that a device signs with its old key, for one conversation only.

        fairlead-late/1 · 0 · the hub's nonce · SHA-256 of the hub's certificate · SHA-256 of the new request

    A program between device and hub shows another certificate, so a signature made for one is useless with the other;
    and a signature never serves for a second request.  ``hub_certificate`` and ``request`` are DER.

    Raises: ``ValueError`` for a nonce of another length.
    """
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
    return _LATE_PREFIX + nonce + sha256(hub_certificate).digest() + sha256(request).digest()


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
    """The authorities of the hub's certificate."""
    issuers: str = ""
    """The authorities of nodes' certificates: programs that connect to the node's agent verify it by them."""
