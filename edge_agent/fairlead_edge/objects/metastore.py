"""The objects a node holds: the port, the writes it takes, and the outcome of a write.

The store is the truth of what this edge holds (the records in the cluster only follow it).  A write is
judged against what is there *inside* the transaction that makes it: content by its digest, identity by UID.

    Put     content does not match its digest, or is not the object its path names   → WriteRefused, permanent
            same UID and digest as held                                              → Unchanged (nothing to do)
            anything else                                → Stored: replaces whatever had the name, atomically
    Remove  the UID held under the name              → Removed
            no such name, or another UID under it    → Absent: it is not held, which is what was asked for

A version that this program cannot use is held all the same, for it is what the cluster wants; the newest usable one
of the same object is then kept beside it, in the same transaction, as its *fallback*.

Every call resolves only when its effect is durable.  ``now`` is seconds of a clock the caller keeps.
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
"""Below the (namespace, name) of every object."""
REASON_CHARS_MAX: Final = 300
"""Limit of what a refusal quotes: it travels in a frame's header."""
STORE_FULL_RETRY_SECONDS: Final = 5.0
"""How long to wait before a refused write is tried again: a clean-up may have made room by then."""


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """Hold this object: ``content`` is its canonical JSON, ``digest`` the hex SHA-256 of exactly these bytes."""

    resource: Resource
    uid: str
    digest: str
    resource_version: str
    content: bytes


class Remove(msgspec.Struct, frozen=True, kw_only=True):
    """Forget the object of this UID."""

    resource: Resource
    uid: str


class HeldObject(msgspec.Struct, frozen=True, kw_only=True):
    """One object as it is held.

    ``resource_version`` is the cluster's, ``local_version`` the edge's own (rising with every change here),
    ``stored_at`` when it was written.  ``status`` is what programs here reported of it (JSON; empty: nothing), and
    ``report`` how far that got; neither is part of the content or its digest.
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
    """The object is held now; ``change`` is what watchers get."""

    change: VersionedChange[HeldObject]


class Unchanged(msgspec.Struct, frozen=True, kw_only=True):
    """The same content was held already."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """The object is gone; ``change`` is what watchers get."""

    change: VersionedChange[HeldObject]


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing with this UID is held under the name."""


class WriteRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The write was refused and nothing was changed; ``code`` is stable, ``reason`` is for people."""

    code: str
    reason: str
    permanent: bool
    retry_after_seconds: float | None = None


Outcome = Stored | Unchanged | Removed | Absent | WriteRefused


class ObjectChunk(msgspec.Struct, frozen=True, kw_only=True):
    """The next objects of a type, and the store's version they are true at; with ``more`` the last is no end."""

    objects: list[HeldObject]
    version: int
    more: bool = False


class StoreSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A digest of everything held: the number of objects, and sums by bucket."""

    held: int
    buckets: digest.Buckets


Usable = Callable[[Resource, bytes], bool]
"""Can this program do with the content what its kind is for?"""


def anything(resource: Resource, content: bytes) -> bool:
    """Every content is usable: no kind is used here, so none needs a fallback."""
    return True


def fallback(previous: HeldObject, put: Put, usable: Usable) -> Literal["drop", "take", "keep"]:
    """What to do with an object's fallback when ``put`` replaces ``previous``; "take": ``previous`` is the new one."""
    if previous.uid != put.uid or usable(put.resource, put.content):
        return "drop"
    return "take" if usable(previous.resource, previous.content) else "keep"


class Metastore(Protocol):
    """Port.  Twins: ``memory_metastore`` and ``io.objects.sqlite_metastore``; one conformance suite."""

    @property
    def log(self) -> WatchHistory[HeldObject]:
        """Changes since the store was opened, newest last; what watches read."""

    async def apply(self, writes: Sequence[Put | Remove], now: float) -> list[Outcome]:
        """Do each write in order, each for itself; resolves when all that were not refused are durable."""

    async def persist_fence(self, fence: int) -> None:
        """Remember the highest fencing number obeyed; a lower one than remembered is a ``LocalError``.

        No hub is refused any more.
        """

    async def lower_fence(self, fence: int) -> None:
        """Replace the remembered number by this lower one: no hub has shown the higher one for long."""

    async def stale_hub(self) -> StaleHub | None:
        """Since when hubs with lower numbers are refused; None: none is."""

    async def persist_stale_hub(self, found: StaleHub) -> None:
        """Remember it until a number is obeyed or given up."""

    async def fence(self) -> int:
        """The highest fencing number obeyed, unless it was given up; 0 = none."""

    async def summary(self, bits: int | None = None) -> StoreSummary:
        """Sums of all entries in ``2**bits`` buckets; None: as many as suit the number of entries."""

    async def entries(self, bits: int, buckets: frozenset[int]) -> list[message.HeldEntry]:
        """The entries held in these buckets, sorted by resource path."""

    async def get(self, group: str, plural: str, namespace: str, name: str) -> HeldObject | None:
        """One object, or None."""

    async def select(self, group: str, plural: str, namespace: str | None = None) -> tuple[list[HeldObject], int]:
        """Objects of a type ordered by (namespace, name), and the store's version they are true at."""

    async def select_chunk(
        self,
        group: str,
        plural: str,
        namespace: str | None = None,
        *,
        after: tuple[str, str] = FIRST,
        bytes_max: int | None = None,
    ) -> ObjectChunk:
        """The same, above the (namespace, name) ``after``, until their contents take ``bytes_max`` or more."""

    async def count(
        self, group: str, version: str, plural: str, namespace: str | None = None, *, after: tuple[str, str] = FIRST
    ) -> int:
        """How many of this version of the type follow ``after``."""

    async def fallbacks(self, group: str, plural: str) -> list[HeldObject]:
        """The newest usable versions of objects whose held version is not, ordered by (namespace, name)."""

    async def kinds(self) -> list[Kind]:
        """Every kind ever held here, sorted; kept when the last object goes, so that clients still find it."""

    async def touch(self, contact_at: float) -> None:
        """Remember when the hub was last heard."""

    async def contact_at(self) -> float | None:
        """When the hub was last heard, also before a restart; None = never."""


def refused(error: Permanent) -> WriteRefused:
    """The answer to a write that failed ``content.verify``."""
    return WriteRefused(code=error.code, reason=str(error), permanent=True)


def store_full(limit_bytes: int) -> WriteRefused:
    """The answer to a write the store has no room for; the same again later may succeed."""
    return WriteRefused(
        code="store_full",
        reason=f"the object store has reached its limit of {limit_bytes} bytes",
        permanent=False,
        retry_after_seconds=STORE_FULL_RETRY_SECONDS,
    )


def same_content(held: HeldObject | None, put: Put) -> bool:
    """True when what is held is what is offered, whatever version it came under."""
    return held is not None and (held.uid, held.digest, held.resource.version) == (
        put.uid,
        put.digest,
        put.resource.version,
    )


def opening_version(stored: int, wall_milliseconds: int) -> int:
    """The store's version at an opening: above all it ever gave out, also if the disk is an older copy.

    Tying it to the clock gives a watcher of the lost history 410 instead of silently missing changes;
    the stored number guards against a clock that went back.
    """
    return max(stored + 1, wall_milliseconds)


def key_of(resource: Resource) -> tuple[str, str, str, str]:
    """The identity under which one object replaces another; leaves the version out, as ``Resource.key`` does."""
    return resource.group, resource.plural, resource.namespace, resource.name


def hold(put: Put, *, local_version: int, now: float, previous: HeldObject | None = None) -> HeldObject:
    """The held object once ``put`` is written; a status reported of the same object stays."""
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


# ---- is the content what the message that brought it says? ----------------------------------------


class _ObjectMetadata(msgspec.Struct):
    """What is read of the metadata here and by lists: as an API server gives it, or it is not an object."""

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
    """Decode all of it, once: what a typed decoder skips would make every later list of its kind fail.

    Raises ``Permanent``.
    """
    try:
        if codec.nesting(content) > codec.NESTING_MAX:
            raise Malformed(f"nested deeper than {codec.NESTING_MAX} levels")
        return msgspec.convert(peer_json.decode(_whole, content), _ObjectDocument)
    except (Malformed, msgspec.ValidationError) as error:
        raise Permanent(f"content is not a Kubernetes object: {error}", code="malformed_content") from None


def verify(put: Put) -> Kind:
    """Check that the content is what the header says.  Returns its kind; raises ``Permanent`` with a code."""
    actual = digest.content_digest(put.content)
    if actual != put.digest:
        raise Permanent(f"content has digest {actual[:12]}…, announced was {put.digest[:12]}…", code="digest_mismatch")
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
