"""From the API server's bytes to the delivered content: canonical, digested and packed once for all nodes.

Desired state goes down, status is reported up: so the content is the object without ``status`` and without the API
server's bookkeeping (``managedFields``, ``resourceVersion``, kubectl's copy of the applied manifest).  Two versions
with the same content are the same delivery, and nothing is sent for the second.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_hub import references
from fairlead_wire import codec, digest, message
from fairlead_wire.errors import Permanent
from fairlead_wire.resource import Resource

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

GroupKind = tuple[str, str]
"""(group, kind): the identity of a type of objects; two versions of it are the same objects."""

POD: GroupKind = ("", "Pod")
EDGE_ROUTES: GroupKind = ("fairlead.dev", "EdgeRoutes")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One served type: what discovery says of an (apiVersion, kind)."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: frozenset[str] = frozenset()
    """What people may call it besides kind and plural."""

    def is_called(self, asked: str) -> bool:
        """As kubectl takes it: kind, plural, short name, each with or without the group, in any case."""
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
        """Path of the collection over all namespaces, without a leading slash."""
        base = f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"
        return f"{base}/{self.plural}"


class Held(msgspec.Struct, frozen=True, gc=False):
    """One object as an edge has it on disk; shared by all nodes that hold the same."""

    path: str
    uid: str
    digest: str
    version: str


class LiveObject(msgspec.Struct, kw_only=True, gc=False):
    """One object as the cluster has it, ready to be sent to any number of nodes.

    ``version`` is the one its content came from; ``seen_version`` the newest with that same content.
    """

    kind: Kind
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
    held: Held

    @property
    def group_kind(self) -> GroupKind:
        return self.kind.group_kind


class Unusable(Permanent):
    """The API server's object cannot be delivered (too large, no identity); it is counted and left out."""


def build(raw: bytes | msgspec.Raw, kind: Kind) -> LiveObject:
    """Raises ``Unusable`` when it has no uid or name, or its content is over the codec's limit."""
    try:
        body: dict[str, Any] = msgspec.json.decode(raw)
        metadata: dict[str, Any] = body["metadata"]
        uid, name, version = str(metadata["uid"]), str(metadata["name"]), str(metadata["resourceVersion"])
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise Unusable(f"{kind.kind} without identity: {error}", code="no_identity") from None
    namespace = str(metadata.get("namespace", "")) if kind.namespaced else ""
    canonical = canonical_bytes(body, kind)
    if len(canonical) > codec.CONTENT_BYTES_MAX:
        raise Unusable(
            f"{kind.kind} {namespace}/{name}: content of {len(canonical)} bytes is too large", code="too_large"
        )
    encoding, packed = codec.pack(canonical)
    fingerprint = digest.content_digest(canonical)
    resource = Resource(group=kind.group, version=kind.version, plural=kind.plural, namespace=namespace, name=name)
    is_pod = kind.group_kind == POD
    return LiveObject(
        kind=kind,
        resource=resource,
        key=resource.key,
        path=resource.path,
        uid=uid,
        version=version,
        seen_version=version,
        digest=fingerprint,
        encoding=encoding,
        content=packed,
        labels={key: str(value) for key, value in (metadata.get("labels") or {}).items()},
        node_name=str((body.get("spec") or {}).get("nodeName", "")) if is_pod else "",
        references=references.of_pod(body) if is_pod else frozenset(),
        held=Held(resource.path, uid, fingerprint, version),
    )


def canonical_bytes(body: dict[str, Any], kind: Kind) -> bytes:
    """The delivered content.  List items carry no apiVersion and kind, so they are always set here."""
    metadata = {
        key: value for key, value in body["metadata"].items() if key not in ("managedFields", "resourceVersion")
    }
    annotations = metadata.get("annotations")
    if annotations is not None:
        kept = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        if kept:
            metadata["annotations"] = kept
        else:
            del metadata["annotations"]
    delivered = {key: value for key, value in body.items() if key not in ("status", "metadata")}
    delivered["apiVersion"], delivered["kind"], delivered["metadata"] = kind.api_version, kind.kind, metadata
    return msgspec.json.encode(delivered, order="sorted")


def unpacked(live: LiveObject) -> dict[str, Any]:
    """The delivered content as data again (for the few kinds the hub itself reads)."""
    decoded: dict[str, Any] = msgspec.json.decode(codec.unpack(live.encoding, live.content))
    return decoded
