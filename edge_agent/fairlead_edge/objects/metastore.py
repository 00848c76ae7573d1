"""The object store: its port, its writes, and their outcomes.

The store is authoritative for what this node holds; the records in the cluster only follow it.  A write is compared
with the stored object *inside* the transaction that makes it: content by digest, identity by UID.

    Put     content does not match its digest, or is not the object of its path      → WriteRefused, permanent
            same UID and digest as stored                                            → Unchanged (nothing to do)
            anything else                           → Stored: atomically replaces the object of this name
    Remove  the UID stored under this name          → Removed
            no such name, or another UID under it   → Absent: the desired state already

A version that this program cannot use is stored anyway, because the cluster wants it; the last usable version of the
same object is then kept beside it, in the same transaction, as its *fallback*.

Every call returns only when its effect is durable.  ``now`` is in seconds of the caller's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, Protocol

import msgspec

from fairlead_edge.link_state import StaleHub
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.watch_history import VersionedChange, WatchHistory
from fairlead_wire import message
from fairlead_wire.errors import Malformed, Permanent
from fairlead_wire.link import codec, peer_json
from fairlead_wire.objects import digest
from fairlead_wire.objects.resource import Resource

FIRST: Final = ("", "")
"""Sorts before the (namespace, name) of every object."""
REASON_CHARS_MAX: Final = 300
"""How much a refusal quotes, because it is sent in a frame's header."""
STORE_FULL_RETRY_SECONDS: Final = 5.0
"""How long to wait before a write refused for lack of room is retried."""


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """Store this object: ``content`` is its canonical JSON, ``digest`` the hex SHA-256 of exactly these bytes."""

    resource: Resource
    uid: str
    digest: str
    resource_version: str
    content: bytes


class Remove(msgspec.Struct, frozen=True, kw_only=True):
    """Remove the object with this UID."""

    resource: Resource
    uid: str


class HeldObject(msgspec.Struct, frozen=True, kw_only=True):
    """A stored object.

    ``resource_version`` is the cluster's; ``local_version`` is the store's own and rises with every change;
    ``stored_at`` is the time of the write.  ``status`` is what programs on this node reported (JSON; empty: nothing),
    and ``report`` how far that got; neither is part of the content or its digest.
    """

    resource: Resource
    uid: str
    digest: str
    resource_version: str
    content: bytes
    local_version: int
    stored_at: float
    status: bytes = b""
    report: str = ""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The object was stored; ``change`` is for watchers."""

    change: VersionedChange[HeldObject]


class Unchanged(msgspec.Struct, frozen=True, kw_only=True):
    """The same content was already stored."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """The object was removed; ``change`` is for watchers."""

    change: VersionedChange[HeldObject]


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    """No object with this UID is stored under this name."""


class WriteRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The write was refused and nothing was changed; ``code`` is stable, ``reason`` is for people."""

    code: str
    reason: str
    permanent: bool
    retry_after_seconds: float | None = None


Outcome = Stored | Unchanged | Removed | Absent | WriteRefused


class ObjectChunk(msgspec.Struct, frozen=True, kw_only=True):
    """The next objects of a type as of ``version`` of the store; ``more``: others follow."""

    objects: list[HeldObject]
    version: int
    more: bool = False


class StoreSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A digest of the whole store: the number of objects, and sums by bucket."""

    held: int
    buckets: digest.Buckets


Usable = Callable[[Resource, bytes], bool]
"""Whether this program can use the content of an object."""


def anything(resource: Resource, content: bytes) -> bool:
    """Treats every content as usable, so that no fallbacks are kept."""
    return True


def fallback(previous: HeldObject, put: Put, usable: Usable) -> Literal["drop", "take", "keep"]:
    """What to do with an object's fallback when ``put`` replaces ``previous``; "take": ``previous`` is the new one."""
    if previous.uid != put.uid or usable(put.resource, put.content):
        return "drop"
    return "take" if usable(previous.resource, previous.content) else "keep"


class Metastore(Protocol):
    """The port, implemented by ``memory_metastore`` and ``io.objects.sqlite_metastore``; one conformance suite."""

    @property
    def log(self) -> WatchHistory[HeldObject]:
        """Changes since the store was opened, newest last; watches read it."""

    async def apply(self, writes: Sequence[Put | Remove], now: float) -> list[Outcome]:
        """Make each write, in order and independently; returns when all that were not refused are durable."""

    async def persist_fence(self, fence: int) -> None:
        """Store the highest fencing number obeyed, and forget ``stale_hub``.  Raises ``LocalError`` for a lower one."""

    async def lower_fence(self, fence: int) -> None:
        """Replace the stored number by this lower one, and forget ``stale_hub``."""

    async def stale_hub(self) -> StaleHub | None:
        """Since when hubs with lower numbers are refused; None: none is."""

    async def persist_stale_hub(self, found: StaleHub) -> None:
        """Store this until a number is obeyed or given up."""

    async def fence(self) -> int:
        """The highest fencing number obeyed and not given up; 0: none."""

    async def summary(self, bits: int | None = None) -> StoreSummary:
        """Sums of all entries in ``2**bits`` buckets; None: chosen by the number of entries."""

    async def entries(self, bits: int, buckets: frozenset[int]) -> list[message.HeldEntry]:
        """The entries in these buckets, sorted by resource path."""

    async def get(self, group: str, plural: str, namespace: str, name: str) -> HeldObject | None:
        """One object, or None."""

    async def select(self, group: str, plural: str, namespace: str | None = None) -> tuple[list[HeldObject], int]:
        """Objects of a type ordered by (namespace, name), and the store's version at that moment."""

    async def select_chunk(
        self,
        group: str,
        plural: str,
        namespace: str | None = None,
        *,
        after: tuple[str, str] = FIRST,
        bytes_max: int | None = None,
    ) -> ObjectChunk:
        """Like ``select``, but only objects above the (namespace, name) ``after``, until they take ``bytes_max``."""

    async def count(
        self, group: str, version: str, plural: str, namespace: str | None = None, *, after: tuple[str, str] = FIRST
    ) -> int:
        """How many objects of this version of the type follow ``after``."""

    async def fallbacks(self, group: str, plural: str) -> list[HeldObject]:
        """The last usable versions of objects whose current version is unusable, ordered by (namespace, name)."""

    async def kinds(self) -> list[Kind]:
        """Every kind ever stored, sorted; a kind stays when its last object is removed, so that clients find it."""

    async def touch(self, contact_at: float) -> None:
        """Store the time of the last contact with the hub."""

    async def contact_at(self) -> float | None:
        """The time of the last contact with the hub, over restarts; None: never."""


def refused(error: Permanent) -> WriteRefused:
    """The outcome of a write that failed ``verify``."""
    return WriteRefused(code=error.code, reason=str(error), permanent=True)


def store_full(limit_bytes: int) -> WriteRefused:
    """The outcome of a write for which there is no room; a retry may succeed."""
    return WriteRefused(
        code="store_full",
        reason=f"the object store has reached its limit of {limit_bytes} bytes",
        permanent=False,
        retry_after_seconds=STORE_FULL_RETRY_SECONDS,
    )


def same_content(held: HeldObject | None, put: Put) -> bool:
    """Whether the stored object has the UID, content and API version of ``put``, whatever its resourceVersion."""
    return held is not None and (held.uid, held.digest, held.resource.version) == (
        put.uid,
        put.digest,
        put.resource.version,
    )


def opening_version(stored: int, wall_milliseconds: int) -> int:
    """The store's version at an opening: above all earlier ones, even if the disk is an older copy.

    It follows the clock, so that watchers of a lost history get 410 instead of missing changes silently; the stored
    number guards against a clock that was set back.
    """
    return max(stored + 1, wall_milliseconds)


def key_of(resource: Resource) -> tuple[str, str, str, str]:
    """The key under which one object replaces another; without the API version, as ``Resource.key``."""
    return resource.group, resource.plural, resource.namespace, resource.name


def hold(put: Put, *, local_version: int, now: float, previous: HeldObject | None = None) -> HeldObject:
    """The stored object after ``put``; a status reported of the same object is kept."""
    same = previous if previous is not None and previous.uid == put.uid else None
    return HeldObject(
        resource=put.resource,
        uid=put.uid,
        digest=put.digest,
        resource_version=put.resource_version,
        content=put.content,
        local_version=local_version,
        stored_at=now,
        status=same.status if same is not None else b"",
        report=same.report if same is not None else "",
    )


def summarise(entries: Iterable[tuple[str, str]], bits: int | None) -> StoreSummary:
    """Sum (UID, digest) pairs into buckets."""
    pairs = list(entries)
    chosen = digest.bits_for(len(pairs)) if bits is None else bits
    return StoreSummary(held=len(pairs), buckets=digest.Buckets.of(pairs, chosen))


# ---- verification of content ---------------------------------------------------------------------


class _ObjectMetadata(msgspec.Struct):
    """The metadata that is used here and by lists; content of another shape is not a Kubernetes object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creationTimestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _ObjectDocument(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    metadata: _ObjectMetadata = msgspec.field(default_factory=_ObjectMetadata)


_whole: msgspec.json.Decoder[object] = msgspec.json.Decoder()


def _document(content: bytes) -> _ObjectDocument:
    """Decode the whole content, because a typed decoder would skip invalid parts that make every later list fail.

    Raises ``Permanent``.
    """
    try:
        if codec.nesting(content) > codec.NESTING_MAX:
            raise Malformed(f"nested deeper than {codec.NESTING_MAX} levels")
        return msgspec.convert(peer_json.decode(_whole, content), _ObjectDocument)
    except (Malformed, msgspec.ValidationError) as error:
        raise Permanent(f"content is not a Kubernetes object: {error}", code="malformed_content") from None


def verify(put: Put) -> Kind:
    """Check that the content matches the header; returns its kind.  Raises ``Permanent`` with a code."""
    actual = digest.content_digest(put.content)
    if actual != put.digest:
        raise Permanent(f"content has digest {actual[:12]}…, announced: {put.digest[:12]}…", code="digest_mismatch")
    if not message.is_uid(put.uid) or len(put.resource_version) > message.NAME_CHARS_MAX:
        raise Permanent(
            f"an object needs a UID of letters, digits, - and _, and at most {message.NAME_CHARS_MAX} characters in it"
            " and its version",
            code="malformed_content",
        )
    document = _document(put.content)
    resource, metadata = put.resource, document.metadata
    announced = (resource.api_version, resource.namespace, resource.name, put.uid)
    found = (document.apiVersion, metadata.namespace, metadata.name, metadata.uid or put.uid)
    if not 0 < len(document.kind) <= message.NAME_CHARS_MAX or announced != found:
        reads = f"{document.kind} {found}"[:REASON_CHARS_MAX]
        raise Permanent(f"content is {reads}, the path says {announced}", code="malformed_content")
    return Kind(
        group=resource.group,
        version=resource.version,
        plural=resource.plural,
        kind=document.kind,
        namespaced=bool(resource.namespace),
    )
