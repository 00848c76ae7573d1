"""Is the content of an object what the message that brought it says?  Checked once, before it is written."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import Put
from fairlead_wire import message
from fairlead_wire.errors import Malformed, Permanent
from fairlead_wire.link import codec, peer_json
from fairlead_wire.objects import digest

REASON_CHARS_MAX: Final = 300
"""Of what a refusal quotes; it travels in a frame's header."""


class _ObjectMetadata(msgspec.Struct):
    """What is read of it here and by those who list: as an API server gives it, or it is no object."""

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
    """Read all of it, once: what a typed decoder passes over unread would stop every later list of its kind.

    Raises ``Permanent``.
    """
    try:
        if codec.nesting(content) > codec.NESTING_MAX:
            raise Malformed(f"nested deeper than {codec.NESTING_MAX} levels")
        return msgspec.convert(peer_json.decode(_whole, content), _ObjectDocument)
    except (Malformed, msgspec.ValidationError) as error:
        raise Permanent(f"content is not a Kubernetes object: {error}", code="malformed_content") from None


def verify(put: Put) -> Kind:
    """Is the content what the header says?  Returns its kind; raises ``Permanent`` with a code when it is not."""
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
