"""Frames that open a session, compare stores, deliver objects, acknowledge, and issue certificates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Final, Literal

import msgspec

# ---- headers --------------------------------------------------------------------------------------------------------

# The base class, and the bounded types of fields.

PROTOCOL = 1
NAME_CHARS_MAX = 256
"""For UIDs, versions and digests, which are not paths."""
REASON_CHARS_MAX = 1024
"""Maximum recorded length of a peer's explanation."""

Id = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""Also used for fencing numbers.  Every JSON parser represents 53 bits exactly."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Place = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A line, a column, an index."""
Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
_UID = r"^[A-Za-z0-9_-]{1,128}\Z"
Uid = Annotated[str, msgspec.Meta(pattern=_UID)]
"""UID of an object, used in names and paths in the hub.  Without dots, so ``<node>.<uid>`` is unique."""
Encoding = Literal["", "zstd"]
Position = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{40})?\Z")]
"""Position of a message in its topic: its id in the messaging service, in ordered hex.  Empty: unknown."""


def is_uid(text: str) -> bool:
    """True if this is a valid UID of an object."""
    return re.match(_UID, text) is not None


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="operation", rename="camel", omit_defaults=True):
    """Base of all headers; the verb is sent as ``operation``."""


# ---- opening -------------------------------------------------------------------------------------------------------

# Opening a session, and the hub's refusal.


class Hello(Header, frozen=True, kw_only=True, tag="hello"):
    """The edge opens the session: its name, the epoch of its store, and a digest of everything it holds."""

    protocol: int = PROTOCOL
    node: Name
    agent: Name
    store_epoch: Epoch
    """Random 53-bit number, chosen each time the edge opens its store."""
    fence: Epoch
    """The highest fencing number of any hub that this edge has obeyed; 0: none yet."""
    bits: Place
    held: Count
    root: Name
    inputs: bool = False
    """This edge accepts ``input`` and answers ``where``."""
    status_rules: Name | None = None
    """Digest of the ``rules`` it holds; None: it does not accept that frame."""


class Welcome(Header, frozen=True, kw_only=True, tag="welcome"):
    """The hub accepts the session.  An edge must leave a hub whose ``fence`` is below the highest it has seen."""

    protocol: int = PROTOCOL
    hub: str
    fence: Epoch
    session: Id
    keepalive_seconds: Seconds
    frame_bytes_max: Count
    upstream_window: Place
    """How many upstream batches may be unacknowledged at once."""
    renew_after_seconds: Seconds | None = None
    """Request a new certificate after this long, by the edge's monotonic clock.  None: this hub does not renew it."""
    tables: bool = False
    """This hub answers ``ask``."""
    reports: bool = False
    """This hub accepts ``report``."""


class Refuse(Header, frozen=True, kw_only=True, tag="refuse"):
    """The hub ends the session, at its opening or later.  ``retry_after`` None: do not reconnect by yourself."""

    code: Name
    """One word for programs.  An edge that does not know it still obeys ``retry_after``."""
    reason: str
    retry_after: Seconds | None = None
    fence: Epoch | None = None
    """With code ``stale_hub``: the fencing number of this hub, which holds the Lease.  A node that sees no higher one
    for ``[link] stale_hub_seconds`` resets the number it has obeyed."""
    approved: bool = False
    """With ``fence``: an operator approved that the node resets the number of its hello at once."""


# ---- comparison ----------------------------------------------------------------------------------------------------

# Comparing what the edge holds with what it should hold.


class Compare(Header, frozen=True, kw_only=True, tag="compare"):
    """Hub: send your bucket sums at this granularity.  The hub may repeat this at any time, as an audit."""

    id: Id
    bits: Place


class BucketSums(Header, frozen=True, kw_only=True, tag="buckets"):
    """Edge: the sums (content, ``digest.Buckets.encode``) as of one snapshot of the store."""

    parent_id: Id = msgspec.field(name="parentID")
    bits: Place


class ListBuckets(Header, frozen=True, kw_only=True, tag="list"):
    """Hub: list the entries of these buckets."""

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

# Delivery of objects to the edge.


class Update(Header, frozen=True, kw_only=True, tag="update"):
    """Hub: store this object (content: its canonical JSON).  One with a new UID replaces the old one atomically."""

    id: Id
    resource: str
    uid: str
    resource_version: str
    digest: str
    """Hex SHA-256 of the unpacked content; the edge verifies it before storing."""
    encoding: Encoding = ""
    chunks: Place = 0
    """0: the content is in this frame; n: it follows in n ``chunk`` frames with this id."""
    traceparent: Name | None = None
    """The W3C trace context of the change, if one is recorded."""


class Chunk(Header, frozen=True, kw_only=True, tag="chunk"):
    """Hub: part ``index`` (from 0) of the content of update ``id``."""

    id: Id
    index: Place


class Progress(Header, frozen=True, kw_only=True, tag="progress"):
    """Edge: ``chunks`` parts of an update have arrived; the hub restarts its ack timer."""

    parent_id: Id = msgspec.field(name="parentID")
    chunks: Place


class Delete(Header, frozen=True, kw_only=True, tag="delete"):
    """Hub: delete this object if it still has this UID; an object of the same name with another UID stays."""

    id: Id
    resource: str
    uid: str


# ---- answers -------------------------------------------------------------------------------------------------------

# Acknowledgements and keepalives, in both directions.


class RefusedItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message of an acknowledged batch that will never be accepted: its index in the batch, code and reason."""

    index: Place
    code: str
    reason: str


class Deferred(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A topic that accepts nothing at the moment.

    The message at ``index`` and the later ones for the same topic were not stored, and must be sent again.
    ``in_doubt``: they may have been stored.
    """

    index: Place
    code: Name
    reason: str
    retry_after: Seconds | None = None
    in_doubt: bool = False


class TopicPosition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The positions of a batch's messages for one topic and epoch; ``index`` is the first of them in the batch.

    With ``first``, they have consecutive positions from there on, in order; otherwise each is at or before ``newest``.
    """

    index: Place
    service: Name
    generation: Count
    first: Position = ""
    newest: Position


class Ack(Header, frozen=True, kw_only=True, tag="ack"):
    """The message ``parentID`` is durable at the sender of this ack.

    ``cumulative``: so is every earlier message of this session that was not nacked.  ``refused`` (upstream only):
    messages of the batch that were not stored and never will be; the edge makes them dead letters.
    """

    parent_id: Id = msgspec.field(name="parentID")
    cumulative: bool = False
    refused: list[RefusedItem] = msgspec.field(default_factory=list)
    held_seconds: Seconds | None = None
    """Upstream only: the time from the batch's arrival at the hub to this answer."""
    positions: list[TopicPosition] = msgspec.field(default_factory=list)
    """Upstream only, if the batch requested them; the positions in other topics are unknown."""
    deferred: list[Deferred] = msgspec.field(default_factory=list)
    """Upstream only: topics whose messages must be sent again; all other messages are durable or refused."""

    def deferred_by_index(self, topics: Sequence[str]) -> dict[int, Deferred]:
        """The deferred messages of a batch by index; ``topics`` are the topics of its messages, in order."""
        return {
            index: each
            for each in self.deferred
            for index in range(each.index, len(topics))
            if topics[index] == topics[each.index]
        }


class Nack(Header, frozen=True, kw_only=True, tag="nack"):
    """The message ``parentID`` was not accepted.  ``permanent``: sending it again would fail again."""

    parent_id: Id = msgspec.field(name="parentID")
    code: Name
    reason: str
    permanent: bool = False
    retry_after: Seconds | None = None
    scope: Literal["stream", "hub"] = "stream"
    """Upstream only.  ``hub``: the hub accepts no stream at the moment."""
    held_seconds: Seconds | None = None
    """As in ``Ack``."""
    stored: list[Place] = msgspec.field(default_factory=list)
    """Upstream only: messages of the batch that are durable nevertheless; the others must be sent again."""
    positions: list[TopicPosition] = msgspec.field(default_factory=list)
    """As in ``Ack``, for the messages in ``stored``."""


class Keepalive(Header, frozen=True, kw_only=True, tag="keepalive"):
    """The edge sends it when it has sent nothing else for an interval; the hub answers with the same."""


# ---- certificates --------------------------------------------------------------------------------------------------

# How a device gets and renews its certificate, and learns which authorities to trust.


NONCE_BYTES: Final = 32
_LATE_PREFIX: Final = b"fairlead-late/1\0"


class AskAuthorities(Header, frozen=True, kw_only=True, tag="authorities"):
    """Device: send the authorities of your certificate.  The device compares them with the pins of its token."""


class Authorities(Header, frozen=True, kw_only=True, tag="authorities"):
    """Hub: the authorities to trust from now on (content: PEM; empty in a session: unchanged).

    In a session it is sent only to edges whose status names the authorities they hold; others do not know this frame.
    """

    certificates: str = ""
    """PEM, in a session: this hub's certificate chain.  The edge checks that the new authorities verify it."""
    renew_after_seconds: Seconds | None = None
    """Another authority signs nodes now: renew the certificate after this long, unless it is due earlier."""


class Join(Header, frozen=True, kw_only=True, tag="join"):
    """Device: request a certificate with a join token (content: certificate request, DER)."""

    token_id: Name
    secret: Name
    node: Name = ""
    """Empty: the node of the token."""
    agent: Name


class Late(Header, frozen=True, kw_only=True, tag="late"):
    """Device: my certificate expired while I was away, and I can prove that I hold its key."""

    node: Name
    agent: Name
    store_epoch: Epoch
    """As in the hello of its last session."""
    fence: Epoch


class Challenge(Header, frozen=True, kw_only=True, tag="challenge"):
    """Hub: sign this nonce."""

    nonce: Name
    """Hex of 32 random bytes."""


class Prove(Header, frozen=True, kw_only=True, tag="prove"):
    """Device: the answer to ``challenge`` (content: JSON ``Proof``)."""


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``signature`` is made with the old key, over ``late_proof``."""

    certificates: str
    """PEM: the old certificate, and its chain if it has one."""
    request: str
    """The certificate request, base64 of DER."""
    signature: str
    """Base64."""


def late_proof(nonce: bytes, *, hub_certificate: bytes, request: bytes) -> bytes:
    """The bytes that a device signs with its old key; they are valid in one conversation only.

        fairlead-late/1 · 0 · the hub's nonce · SHA-256 of the hub's certificate · SHA-256 of the new request

    A program between device and hub shows another certificate, so it cannot pass the signature on, and a signature
    cannot be used for a second request.  ``hub_certificate`` and ``request`` are DER.

    Raises ``ValueError`` for a nonce of the wrong length.
    """
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
    return _LATE_PREFIX + nonce + sha256(hub_certificate).digest() + sha256(request).digest()


class Renew(Header, frozen=True, kw_only=True, tag="renew"):
    """Edge, in a session: request a certificate for a new key (content: certificate request, DER)."""

    id: Id


class Issued(Header, frozen=True, kw_only=True, tag="issued"):
    """Hub: the answer to ``renew``, ``join`` or ``prove`` (content: JSON ``IssuedCertificates``)."""

    parent_id: Id = msgspec.field(name="parentID", default=0)
    node: Name
    expires: Name
    """RFC 3339."""
    renew_after_seconds: Seconds | None = None


class IssuedCertificates(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All values are PEM."""

    certificates: str
    """The node's certificate, then its chain to the authority that the hub trusts."""
    authorities: str
    """The authorities of the hub's certificate."""
    issuers: str = ""
    """The authorities of nodes' certificates, with which programs verify the node's agent."""
