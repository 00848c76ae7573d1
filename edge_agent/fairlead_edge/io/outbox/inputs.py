"""Stores messages from the cloud in the queues of modules, each once, however often the hub sends it.

hub ─input▶ take ─▶ outbox, with its id in the same transaction ─▶ broker ─lease▶ module
                └ known already: acknowledged again, and not stored
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

import msgspec

from fairlead_edge.errors import StoreFailed, StoreFull
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.tables import inputs
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import Entry
from fairlead_edge.outbox.queues import QueueId
from fairlead_wire import message
from fairlead_wire.errors import Permanent, RemoteError, Temporary
from fairlead_wire.io import logs

RETRY_SECONDS = 5.0
_log = logs.get("edge.inputs")


class Inputs:
    """One per agent.  ``refuse_if_closed`` raises while the node moves to another hub; ``make_room`` sweeps."""

    def __init__(
        self,
        outbox: SqliteOutbox,
        *,
        node: str,
        refuse_if_closed: Callable[[], None],
        make_room: Callable[[], Awaitable[int]],
        appended: Callable[[Iterable[QueueId]], None],
    ) -> None:
        self._outbox, self._node, self._refuse_if_closed = outbox, node, refuse_if_closed
        self._make_room, self._appended = make_room, appended

    async def take(self, header: message.Input, content: bytes) -> message.Ack | message.Nack:
        """Store the message.  An Ack means that it is durably in its queue, or was before.  Raises ``StoreFailed``."""
        try:
            entry = envelope.input_entry(header, content, node=self._node)
            self._refuse_if_closed()
            is_new = await self._store(entry)
        except StoreFailed:
            raise
        except (RemoteError, Permanent) as error:
            reason = str(error)[: message.REASON_CHARS_MAX]
            _log.warning(
                "input_refused", message=header.message, module=header.module, input=header.input, reason=reason
            )
            return message.Nack(parent_id=header.id, code="bad_message", reason=reason, permanent=True)
        except Temporary as error:
            code = "store_full" if isinstance(error, StoreFull) else "not_now"
            seconds = error.retry_after_seconds or RETRY_SECONDS
            reason = str(error)[: message.REASON_CHARS_MAX]
            return message.Nack(parent_id=header.id, code=code, reason=reason, retry_after=seconds)
        if is_new:
            self._appended([entry.references[0].queue])
        return message.Ack(parent_id=header.id)

    async def states(self, ids: Sequence[str]) -> bytes:
        """A JSON array of ``message.InputReached`` for the known ids."""
        found = await self._outbox.writer.read(partial(inputs.input_states, ids=list(ids), now=self._outbox.now()))
        return msgspec.json.encode(found)

    async def _store(self, entry: Entry) -> bool:
        outbox = self._outbox

        def job() -> Awaitable[bool]:
            take = partial(inputs.take_input, entry=entry, epoch=outbox.epoch, max_bytes=outbox.max_bytes)
            return outbox.writer.submit(partial(take, now=outbox.now()))

        try:
            return await job()
        except StoreFull:
            if not await self._make_room():
                raise
        return await job()
