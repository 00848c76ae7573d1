"""How one object looks on the wire: the frames of an update, whole or in parts, and of a delete."""

from __future__ import annotations

from fairlead_hub.cluster.content import HeldCopy, LiveObject
from fairlead_hub.session_ref import Frame
from fairlead_wire import message


def parts_of(live: LiveObject, chunk_bytes: int) -> int:
    """In how many parts its packed content travels; 0: whole, within the update itself."""
    size = len(live.content)
    return -(-size // chunk_bytes) if size > chunk_bytes else 0


def update(id: int, live: LiveObject, chunk_bytes: int) -> list[Frame]:
    """In the order in which they are sent; content is shared by all nodes, never copied where it is sent whole."""
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
    """Of this UID only: a newer object under the same name stays."""
    return message.Delete(id=id, resource=held.path, uid=held.uid), b""
