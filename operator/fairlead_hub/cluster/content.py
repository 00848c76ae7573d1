"""Turns the API server's bytes into the content that is delivered: canonical, digested, and packed once for all nodes.

Desired state is sent down and status is reported up, so the content is the object without ``status``, without the API
server's bookkeeping (``managedFields``, ``resourceVersion``, kubectl's copy of the applied manifest), and without the
annotation that pauses delivery.  If two versions have the same content, nothing is sent for the second.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead_hub.cluster import api_json, paused_objects, references
from fairlead_wire import message
from fairlead_wire.errors import Malformed, Permanent
from fairlead_wire.link import codec
from fairlead_wire.objects import api_group, digest, resource
from fairlead_wire.objects.resource import Resource

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NOT_DELIVERED = frozenset((LAST_APPLIED, api_group.PAUSED))
"""Annotations that are not part of the delivered content."""

GroupKind = tuple[str, str]
"""(group, kind): identifies a type of object; all its versions are the same objects."""

POD: GroupKind = ("", "Pod")
EDGE_ROUTES: GroupKind = (api_group.GROUP, "EdgeRoutes")


class ServedKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that the API server serves, as discovery describes it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: frozenset[str] = frozenset()
    """Short names, besides kind and plural."""

    def is_called(self, asked: str) -> bool:
        """Match a name as kubectl does: kind, plural or short name, with or without the group, case-insensitive."""
        name, _, group = asked.lower().partition(".")
        return name in {self.kind.lower(), self.plural, *self.short_names} and group in ("", self.group)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        return (self.group, self.kind)

    @property
    def root(self) -> str:
        """Path of the collection across all namespaces, without a leading slash."""
        base = f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"
        return f"{base}/{self.plural}"


_split = functools.lru_cache(maxsize=16_384)(resource.split)


def identity(path: str, kinds: Mapping[str, ServedKind]) -> tuple[str, str, str, str]:
    """(apiVersion, kind, namespace, name) of a resource path.

    The plural stands in for a kind that no rule names any more.
    """
    found = _split(path)
    known = kinds.get(found.type)
    return found.api_version, known.kind if known else found.plural, found.namespace, found.name


class ContentId(msgspec.Struct, frozen=True, gc=False):
    """An object together with its content.  Equal only if both are equal; the strings are never joined."""

    uid: str
    digest: str
    """Empty if the object is to be deleted."""


class HeldCopy(msgspec.Struct, frozen=True, gc=False):
    """One object as stored at an edge; shared by all nodes that hold the same content."""

    path: str
    uid: str
    digest: str
    version: str

    @property
    def content_id(self) -> ContentId:
        return ContentId(self.uid, self.digest)


class UndeliverableObject(msgspec.Struct, frozen=True, gc=False):
    """Why this object cannot be delivered to any edge: ``code`` for programs, ``reason`` for people."""

    code: str
    reason: str


class LiveObject(msgspec.Struct, kw_only=True, gc=False):
    """One object as it is in the cluster, ready to be sent to any number of nodes.

    ``version`` is the version its content came from, ``seen_version`` the newest version with that content.
    """

    kind: ServedKind
    resource: Resource
    key: str
    path: str
    uid: str
    version: str
    seen_version: str
    digest: str
    encoding: message.Encoding
    content: bytes
    labels: dict[str, str]
    node_name: str = ""
    references: frozenset[str] = frozenset()
    held: HeldCopy
    problem: UndeliverableObject | None = None
    """If set, the object is parked wherever it is wanted, instead of being sent; edges keep the copy they have."""
    paused: str = ""
    """Why delivery of the object is paused (``paused_objects``); empty if it is not."""

    @property
    def group_kind(self) -> GroupKind:
        return self.kind.group_kind

    @property
    def content_id(self) -> ContentId:
        return ContentId(self.uid, self.digest)


class Unusable(Permanent):
    """The object has no identity, so no record can be kept of it.  ``key`` names it if its name could be read."""

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(message, code="no_identity")
        self.key = key


def build(raw: bytes | msgspec.Raw, kind: ServedKind) -> LiveObject:
    """Build the deliverable object; ``problem`` is set if no edge would accept it.

    Raises ``Unusable`` if it has no name, UID or version.
    """
    try:
        body, deep = api_json.quick_document(raw)
        header = api_json.header_of(body)
    except Malformed as error:
        raise Unusable(f"{kind.kind}: {error}") from None
    namespace = header.namespace if kind.namespaced else ""
    name = Resource(group=kind.group, version=kind.version, plural=kind.plural, namespace=namespace, name=header.name)
    if not message.is_uid(header.uid) or not header.version:
        shown = "/".join(filter(None, (namespace, header.name)))
        raise Unusable(f"{kind.kind} {shown} has no UID or no version", key=name.key)
    problem, canonical = UndeliverableObject("too_deep", deep) if deep else None, b""
    if problem is None:
        problem, canonical = _delivered(body, kind, name, header)
    encoding, packed = codec.pack(canonical)
    # No edge holds content that was never sent, so with this placeholder digest the object stays wanted, and parked.
    fingerprint = digest.content_digest(canonical if problem is None else bytes(raw))
    is_pod = kind.group_kind == POD
    spec = body.get("spec")
    return LiveObject(
        kind=kind,
        resource=name,
        key=name.key,
        path=name.path,
        uid=header.uid,
        version=header.version,
        seen_version=header.version,
        digest=fingerprint,
        encoding=encoding,
        content=packed,
        labels=header.labels or {},
        node_name=str(spec.get("nodeName", "")) if is_pod and isinstance(spec, dict) else "",
        references=references.of_pod(body) if is_pod else frozenset(),
        held=HeldCopy(name.path, header.uid, fingerprint, header.version),
        problem=problem,
        paused=paused_objects.reason(header.annotations),
    )


def _delivered(
    body: dict[str, Any], kind: ServedKind, name: Resource, header: api_json.ObjectHeader
) -> tuple[UndeliverableObject | None, bytes]:
    """The delivered content, or why the edge would refuse it (by its ``metastore.verify`` or the frame limits)."""
    try:
        resource.parse(name.path)
        if header.problem:
            raise Malformed(header.problem)
        if not isinstance(body["metadata"].get("creationTimestamp"), str | None):
            raise Malformed("metadata.creationTimestamp: not a string")
        if header.namespace != name.namespace:
            raise Malformed(f"it has the namespace {header.namespace!r:.100}, but {kind.kind} is cluster-scoped")
        if len(header.version) > message.NAME_CHARS_MAX or len(kind.kind) > message.NAME_CHARS_MAX:
            raise Malformed(f"its version or kind is longer than {message.NAME_CHARS_MAX} characters")
        canonical = canonical_bytes(body, kind)
    except Malformed as error:
        return UndeliverableObject("malformed_content", str(error)), b""
    except RecursionError:
        return UndeliverableObject("too_deep", api_json.TOO_DEEP), b""
    if len(canonical) > codec.CONTENT_BYTES_MAX:
        reason = f"content of {len(canonical)} bytes exceeds the limit of {codec.CONTENT_BYTES_MAX}"
        return UndeliverableObject("too_large", reason), b""
    if codec.nesting(canonical) > codec.NESTING_MAX:
        return UndeliverableObject("too_deep", api_json.TOO_DEEP), b""
    return None, canonical


def canonical_bytes(body: dict[str, Any], kind: ServedKind) -> bytes:
    """The delivered content as canonical JSON.  apiVersion and kind are always set: list items lack them."""
    metadata = {
        key: value for key, value in body["metadata"].items() if key not in ("managedFields", "resourceVersion")
    }
    annotations = metadata.get("annotations")
    if annotations is not None:
        kept = {key: value for key, value in annotations.items() if key not in NOT_DELIVERED}
        if kept:
            metadata["annotations"] = kept
        else:
            del metadata["annotations"]
    delivered = {key: value for key, value in body.items() if key not in ("status", "metadata")}
    delivered["apiVersion"], delivered["kind"], delivered["metadata"] = kind.api_version, kind.kind, metadata
    return msgspec.json.encode(delivered, order="sorted")


def unpacked(live: LiveObject) -> dict[str, Any]:
    """Decode the delivered content, for the few kinds that the hub itself reads."""
    decoded: dict[str, Any] = msgspec.json.decode(codec.unpack(live.encoding, live.content))
    return decoded
