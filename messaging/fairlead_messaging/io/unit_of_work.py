"""A transaction around several participants, messaging the last of them.

    async with UnitOfWork(client, participants=[table]) as work:
        table.write(…)
        await work.publish("default", "changes", [b"…"])

On leaving: each participant persists in turn, then the messages are published, then the transaction commits, so
a message is never visible before what it tells of, and readers wait for it as briefly as can be.  On any failure
everything is rolled back and the transaction aborted; if a rollback fails too, it is invalidated, which hides its
messages all the same.  Messages are buffered here; a full buffer is stored with the service.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from fairlead_messaging.io.client import How, MessagingClient, Started
from fairlead_wire.errors import FairleadError, LocalError

BUFFER_BYTES_MAX = 1024 * 1024

Name = tuple[str, str]


class Participant(Protocol):
    """Somebody whose changes stand or fall with the messages."""

    def changes(self) -> Sequence[str]:
        """Keys changed, for conflict detection; may be empty."""
        ...

    async def persist(self) -> None:
        """Write; may still be rolled back."""
        ...

    async def rollback(self) -> None:
        """Undo what ``persist`` wrote, also when it wrote only a part."""
        ...


class UnitOfWork:
    """One use, one transaction."""

    def __init__(
        self,
        client: MessagingClient,
        *,
        participants: Sequence[Participant] = (),
        timeout_seconds: float | None = None,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
    ) -> None:
        self._client = client
        self._participants = participants
        self._timeout = timeout_seconds
        self._buffer_bytes_max = buffer_bytes_max
        self._buffers: dict[Name, list[bytes]] = {}
        self._buffered = 0
        self._stored: set[Name] = set()
        self._details: list[tuple[Name, bytes]] = []
        self._started: Started | None = None

    @property
    def started(self) -> Started:
        """The transaction; poll with its snapshot to see what it may see."""
        if self._started is None:
            raise LocalError("the unit of work is not open")
        return self._started

    async def publish(self, namespace: str, name: str, payloads: Sequence[bytes]) -> None:
        """Published when the work is done.  A full buffer is stored with the service at once."""
        assert self.started
        self._buffers.setdefault((namespace, name), []).extend(payloads)
        self._buffered += sum(map(len, payloads))
        if self._buffered > self._buffer_bytes_max:
            await self._store()

    async def __aenter__(self) -> Self:
        self._started = await self._client.start_transaction(self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._undo()
            return
        try:
            for participant in self._participants:
                await participant.persist()
            await self._publish()
            changes = [change for participant in self._participants for change in participant.changes()]
            await self._client.finish_transaction(self.started.transactionWritePointer, "commit", changes)
        except BaseException:
            await self._undo()
            raise

    async def _store(self) -> None:
        for name, payloads in self._buffers.items():
            await self._client.store_in(self.started.transactionWritePointer, *name, payloads)
            self._stored.add(name)
        self._buffers.clear()
        self._buffered = 0

    async def _publish(self) -> None:
        if self._stored:
            await self._store()  # what came later belongs behind what is stored, in every topic
            batches = {name: list[bytes]() for name in self._stored}
        else:
            batches = self._buffers
        for name, payloads in batches.items():
            detail = await self._client.publish_in(self.started.transactionWritePointer, *name, payloads)
            self._details.append((name, detail))

    async def _undo(self) -> None:
        """Roll everybody back, then abort; invalidate when anybody could not.

        The transaction may be over already: aborted by a conflict, or timed out.  Its messages are hidden then.
        """
        failures: list[BaseException] = []
        for participant in reversed(self._participants):
            try:
                await participant.rollback()
            except Exception as error:  # noqa: BLE001 - the others must be rolled back too
                failures.append(error)
        for name, detail in self._details:
            try:
                await self._client.roll_back(*name, detail)
            except FairleadError as error:
                failures.append(error)
        try:
            how: How = "invalidate" if failures else "abort"
            await self._client.finish_transaction(self.started.transactionWritePointer, how)
        except FairleadError as error:
            failures.append(error)
        self.failures = failures

    failures: Sequence[BaseException] = ()
    """What went wrong while rolling back; the messages are hidden all the same, at the latest by the timeout."""
