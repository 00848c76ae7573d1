"""How one object looks on the wire: the frames of an update, whole or in parts, and of a delete."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_hub.cluster.content import Held, LiveObject
from fairlead_wire import message

Frame = tuple[message.FromHub, bytes]


def parts(live: LiveObject, chunk_bytes: int) -> int:
    """In how many parts its packed content travels; 0: whole, within the update itself."""
    size = len(live.content)
    return -(-size // chunk_bytes) if size > chunk_bytes else 0


def update(id: int, live: LiveObject, chunk_bytes: int) -> Iterator[Frame]:
    """In the order in which they are sent; content is shared by all nodes, never copied where it is sent whole."""
    count = parts(live, chunk_bytes)
    header = message.Update(
        id=id,
        resource=live.path,
        uid=live.uid,
        resource_version=live.version,
        digest=live.digest,
        encoding=live.encoding,
        chunks=count,
    )
    yield header, b"" if count else live.content
    for index in range(count):
        yield message.Chunk(id=id, index=index), live.content[index * chunk_bytes : (index + 1) * chunk_bytes]


def delete(id: int, held: Held) -> Frame:
    """Of this UID only: a newer object under the same name stays."""
    return message.Delete(id=id, resource=held.path, uid=held.uid), b""
