"""What one session sends about objects and has in flight: matches answers to messages, and finds overdue ones.

update_frames, delete_frame ─▶ sent ─▶ in flight ─┬─ acked ──▶ Answered
                                                  ├─ nacked ─▶ Answered
                                                  └─ lapsed ─▶ Answered

One message is in flight per key (``key_state``).  A send that lapsed may still be acked late, and then says what the
edge holds, unless something newer was acked for that key.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairlead_hub.cluster.content import ContentId, HeldCopy, LiveObject
from fairlead_hub.session_ref import Frame
from fairlead_hub.settings import NodeDelivery, WindowLimits
from fairlead_wire import message
from fairlead_wire.link import window


class InFlightMessage(msgspec.Struct, kw_only=True, gc=False):
    """A message in flight; ``held`` is what the edge holds after an ack, None for a delete."""

    key: str
    uid: str
    path: str
    held: HeldCopy | None
    policy: NodeDelivery

    @property
    def content_id(self) -> ContentId:
        """What is sent or deleted."""
        return ContentId(self.uid, self.held.digest if self.held is not None else "")


Answered = window.SentMessage[InFlightMessage]
"""A message (``token``, sent under ``id``) that was acked, nacked, or not answered in time."""


class InFlightWindow:
    """See the module docstring.  ``now`` is seconds of one monotonic clock."""

    __slots__ = ("_answered_at", "_answered_id", "_chunked", "_lapsed", "_sent_id", "_window")

    def __init__(self, limits: WindowLimits) -> None:
        self._window: window.Window[InFlightMessage] = window.Window(
            messages_max=limits.messages, bytes_max=limits.bytes
        )
        self._lapsed: dict[str, int] = {}
        """Keys with a lapsed send → the newest id acked for them: a late ack of an older id says nothing."""
        self._sent_id = 0
        self._answered_id = 0
        self._answered_at = float("-inf")
        self._chunked: dict[int, float] = {}
        """Ids of updates sent in parts → ack timeout, restarted by progress."""

    def __len__(self) -> int:
        return len(self._window)

    @property
    def has_room(self) -> bool:
        return self._window.has_room

    def sent(self, id: int, message: InFlightMessage, size: int, now: float, *, in_parts: bool = False) -> None:
        """The message is being sent under this id."""
        timeout = message.policy.ack_timeout
        self._window.open(id=id, token=message, size=size, now=now, timeout=timeout)
        self._sent_id = id
        if in_parts:
            self._chunked[id] = timeout

    # ---- answers ---------------------------------------------------------------------------------

    def acked(self, id: int, *, cumulative: bool, now: float) -> Iterator[Answered]:
        """Everything this ack makes durable, oldest first, except sends superseded by a newer ack."""
        self._answered(id, now)
        for entry in self._window.settle(id, cumulative=cumulative):
            key = entry.token.key
            self._chunked.pop(entry.id, None)
            newest = self._lapsed.get(key)
            if newest is not None:
                if entry.id < newest:
                    continue
                self._lapsed[key] = entry.id
            yield entry

    def nacked(self, id: int, now: float) -> Answered | None:
        """The refused send; None if it is unknown or was already answered."""
        self._answered(id, now)
        self._chunked.pop(id, None)
        for entry in self._window.settle(id):
            return entry
        return None

    def progressed(self, id: int, now: float) -> None:
        timeout = self._chunked.get(id)
        if timeout is not None:
            self._window.extend(id, now=now, timeout=timeout)

    def _answered(self, id: int, now: float) -> None:
        if 0 < id <= self._sent_id:
            self._answered_id = max(self._answered_id, id)
            self._answered_at = now

    # ---- time ------------------------------------------------------------------------------------

    def lapsed(self, now: float) -> Iterator[Answered]:
        """Sends whose answer is overdue; it may still arrive."""
        self._allow_for_slow_links(now)
        for entry in self._window.lapse(now):
            self._lapsed.setdefault(entry.token.key, 0)
            yield entry

    def _allow_for_slow_links(self, now: float) -> None:
        """Let a timeout start no earlier than the last answer to a preceding message, because frames arrive in order.

        Otherwise a slow link with a full window would time out and send everything again although acks are arriving.  A
        message whose successors were answered is overdue by its own time, and no answer shortens a deadline.
        """
        deadline = self._window.next_deadline()
        if deadline is None or deadline > now:
            return
        for entry in self._window:
            timeout = entry.token.policy.ack_timeout
            if entry.id > self._answered_id and self._answered_at + timeout > max(now, entry.deadline):
                self._window.extend(entry.id, now=self._answered_at, timeout=timeout)

    def next_deadline(self) -> float | None:
        return self._window.next_deadline()


def parts_of(live: LiveObject, chunk_bytes: int) -> int:
    """Number of parts in which its packed content is sent; 0 if it fits into the update itself."""
    size = len(live.content)
    return -(-size // chunk_bytes) if size > chunk_bytes else 0


def update_frames(id: int, live: LiveObject, chunk_bytes: int) -> list[Frame]:
    """The frames of an update in sending order.  Nodes share the content; it is not copied if it is sent whole."""
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


def delete_frame(id: int, held: HeldCopy) -> Frame:
    """Delete this UID only: a newer object under the same name stays."""
    return message.Delete(id=id, resource=held.path, uid=held.uid), b""
