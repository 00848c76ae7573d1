"""Updates that arrive in parts: collected in order, bounded, handed over whole.

An object larger than a frame should be, or than a slow link should carry in one piece, comes as one header and
then its parts.  Each part is reported to the sender as progress, so that its ack timer measures silence, not size.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_edge.objects.metastore import WriteRefused
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link.codec import CONTENT_BYTES_MAX

UPDATES_MAX: Final = 8
"""Updates that may arrive in parts at the same time."""
PARTS_MAX: Final = 1024
BYTES_MAX: Final = 2 * CONTENT_BYTES_MAX
"""Parts held of all of them together, packed."""
RETRY_SECONDS: Final = 1.0


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """So many parts are here; ``content`` once they are all."""

    update: message.Update
    chunks: int
    content: bytes | None


class Chunks:
    """The parts received in one session.  Refusals are temporary unless the object itself is too large."""

    def __init__(self) -> None:
        self._updates: dict[int, message.Update] = {}
        self._parts: dict[int, list[bytes]] = {}
        self._bytes = 0

    def begin(self, update: message.Update) -> WriteRefused | None:
        """Expect the parts of ``update``; the answer to the sender when they are not wanted."""
        if not 0 < update.chunks <= PARTS_MAX:
            return WriteRefused(
                code="too_large", reason=f"{update.chunks} parts, at most {PARTS_MAX} are taken", permanent=True
            )
        if len(self._updates) >= UPDATES_MAX:
            return _busy(f"{UPDATES_MAX} updates are arriving in parts already")
        self._updates[update.id] = update
        self._parts[update.id] = []
        return None

    def add(self, chunk: message.Chunk, content: bytes) -> Arrived | WriteRefused | None:
        """One part came; None when none is expected (its update was refused or dropped).

        Raises ``Malformed`` when it is not the next one: within a session frames arrive in order.
        """
        update = self._updates.get(chunk.id)
        if update is None:
            return None
        parts = self._parts[chunk.id]
        if chunk.index != len(parts):
            raise Malformed(f"chunk {chunk.index} of message {chunk.id} came, {len(parts)} was next")
        if sum(map(len, parts)) + len(content) > CONTENT_BYTES_MAX:
            self._forget(chunk.id)
            reason = f"{update.resource}: more than {CONTENT_BYTES_MAX} bytes"
            return WriteRefused(code="too_large", reason=reason, permanent=True)
        if self._bytes + len(content) > BYTES_MAX:
            self._forget(chunk.id)
            return _busy(f"{BYTES_MAX} bytes of unfinished updates are held already")
        parts.append(content)
        self._bytes += len(content)
        if len(parts) < update.chunks:
            return Arrived(update=update, chunks=len(parts), content=None)
        self._forget(chunk.id)
        return Arrived(update=update, chunks=update.chunks, content=b"".join(parts))

    def drop(self, path: str) -> list[int]:
        """Forget unfinished updates of this object; returns their message ids."""
        dropped = [id for id, update in self._updates.items() if update.resource == path]
        for id in dropped:
            self._forget(id)
        return dropped

    def _forget(self, id: int) -> None:
        del self._updates[id]
        self._bytes -= sum(map(len, self._parts.pop(id)))


def _busy(reason: str) -> WriteRefused:
    return WriteRefused(code="busy", reason=reason, permanent=False, retry_after_seconds=RETRY_SECONDS)
