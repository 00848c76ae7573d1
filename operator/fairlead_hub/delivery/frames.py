"""Encodes an object for the link: the frames of an update, whole or in parts, and of a delete."""

from __future__ import annotations

from fairlead_hub.cluster.content import HeldCopy, LiveObject
from fairlead_hub.session_ref import Frame
from fairlead_wire import message


def parts_of(live: LiveObject, chunk_bytes: int) -> int:
    """Number of parts in which its packed content is sent; 0 if it fits into the update itself."""
    size = len(live.content)
    return -(-size // chunk_bytes) if size > chunk_bytes else 0


def update(id: int, live: LiveObject, chunk_bytes: int) -> list[Frame]:
    """The frames in sending order.  Nodes share the content; it is not copied if it is sent whole."""
    count = parts_of(live, chunk_bytes)
    header = message.Update(
        id=id,
        resource=live.path,
        uid=live.uid,
        resource_version=live.version,
        digest=live.digest,
        encoding=live.encoding,
        chunks=count,
    )
    if not count:
        return [(header, live.content)]
    size, content = chunk_bytes, live.content
    parts: list[Frame] = [
        (message.Chunk(id=id, index=index), content[index * size : (index + 1) * size]) for index in range(count)
    ]
    return [(header, b""), *parts]


def delete(id: int, held: HeldCopy) -> Frame:
    """Delete this UID only: a newer object under the same name stays."""
    return message.Delete(id=id, resource=held.path, uid=held.uid), b""
