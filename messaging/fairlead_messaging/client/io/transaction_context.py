"""A transaction that spans several participants, of which messaging is the last.

    with TransactionContext(client, participants=[table]) as work:
        table.write(…)
        work.publish("default", "changes", [b"…"])

At the end of the block each participant persists in turn, then the messages are published, then the transaction
commits.  On any failure everything is rolled back and the transaction is aborted, or invalidated if a rollback fails
too; both hide its messages.  Messages are buffered here; a full buffer is stored with the service.
The transaction is renewed in the background, so the block may last for hours.  If the transaction ends nevertheless,
the next ``publish`` or ``check``, or the end of the block, raises ``TransactionLost`` before anything is persisted.
``InDoubt``: the commit was sent and no answer says whether it happened; nothing was rolled back.

``Renewal`` only renews a transaction:

    with Renewal(client, pointer, timeout_seconds=60) as renewal:
        for part in hours_of_work:
            renewal.check()          # raises TransactionLost once the transaction is known to be lost
            client.store_in(pointer, "default", "orders", part)

The end of its block only stops the renewals: commit or abort inside the block.

``AsyncTransactionContext`` and ``AsyncRenewal`` are the same with ``async with`` and ``await``, for an ``AsyncClient``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from fairlead_messaging.api.responses import Started
from fairlead_messaging.client import script, transaction
from fairlead_messaging.client.errors import TransactionLost
from fairlead_messaging.client.methods import AwaitingClient, BlockingClient
from fairlead_messaging.client.request import ClientRequest
from fairlead_messaging.client.script import Pause
from fairlead_messaging.client.transaction import BUFFER_BYTES_MAX, Persist, RollBack, Step, TransactionCoordinator, Who

LEAVE_SECONDS = 1.0
"""How long the end of the block waits for a renewal in progress; one that is answered later does no harm."""


class _Ended(BaseException):
    """The block was left."""


class _RenewalResult:
    """Whether the transaction was lost although it was renewed."""

    _lost: TransactionLost | None = None

    @property
    def lost(self) -> TransactionLost | None:
        """Why the transaction can no longer commit; None while it can."""
        return self._lost

    def check(self) -> None:
        """Raises ``TransactionLost`` once that is known."""
        if self._lost is not None:
            raise self._lost


class Renewal(_RenewalResult):
    """Renews a transaction of a ``Client`` or ``BulkClient``, in a background thread."""

    def __init__(self, client: BlockingClient, pointer: int, *, timeout_seconds: float) -> None:
        self._client = client
        self._script = transaction.keep_alive(pointer, timeout_seconds, time.monotonic)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transaction-renewal", daemon=True)

    def start(self) -> None:
        """Start renewing, like entering the block."""
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing, like leaving the block; idempotent."""
        self._ended.set()
        self._thread.join(LEAVE_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        with contextlib.suppress(_Ended):
            self._lost = script.perform(self._script, self._do)

    def _do(self, step: ClientRequest[Any] | Pause) -> Any:
        if not isinstance(step, Pause):
            return self._client.do(step)
        if self._ended.wait(step.seconds):
            raise _Ended
        return None


class AsyncRenewal(_RenewalResult):
    """``Renewal`` for an ``AsyncClient``, with ``async with``."""

    def __init__(self, client: AwaitingClient, pointer: int, *, timeout_seconds: float) -> None:
        self._client = client
        self._script = transaction.keep_alive(pointer, timeout_seconds, time.monotonic)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start renewing, like entering the block."""
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Stop renewing, like leaving the block; idempotent."""
        if self._task is not None:
            self._task.cancel()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _run(self) -> None:
        self._lost = await script.perform_async(self._script, self._client.take)


C = TypeVar("C")


class Participant(Protocol):
    """Something whose changes and the messages must be committed together or not at all."""

    def changes(self) -> Sequence[str]:
        """The keys that it changed, for conflict detection; may be empty."""
        ...

    def persist(self) -> None:
        """Write the changes; they may still be rolled back."""
        ...

    def rollback(self) -> None:
        """Undo what ``persist`` wrote, even if it wrote only a part."""
        ...


class AsyncParticipant(Protocol):
    """A ``Participant`` whose methods are awaited."""

    def changes(self) -> Sequence[str]: ...

    async def persist(self) -> None: ...

    async def rollback(self) -> None: ...


class _Context(Generic[C, Who]):
    """For one transaction; cannot be used twice."""

    def __init__(
        self,
        client: C,
        *,
        participants: Sequence[Who] = (),
        timeout_seconds: float | None = None,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
    ) -> None:
        self._client = client
        self._coordinator = TransactionCoordinator(
            participants, timeout_seconds=timeout_seconds, buffer_bytes_max=buffer_bytes_max
        )
        self._renewal: Renewal | AsyncRenewal | None = None

    @property
    def started(self) -> Started:
        """The transaction; poll with its snapshot to read what it may see.  Raises ``LocalError`` outside the block."""
        return self._coordinator.started

    @property
    def failures(self) -> Sequence[BaseException]:
        """Errors of the rollback; the messages are hidden nevertheless, at the latest by the transaction's timeout."""
        return self._coordinator.failures

    def check(self) -> None:
        """Check that the transaction can still be committed, as a long block should from time to time.

        Raises ``TransactionLost`` once it is known that it cannot.
        """
        self._coordinator.check()

    @property
    def _pointer(self) -> int:
        return self._coordinator.started.transactionWritePointer

    def _keep(self, renewal: Renewal | AsyncRenewal) -> None:
        self._renewal = renewal
        self._coordinator.renewed_by(lambda: renewal.lost)
        renewal.start()

    def _end_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()


class TransactionContext(_Context[BlockingClient, Participant]):
    """For one thread."""

    def publish(self, namespace: str, name: str, payloads: Sequence[bytes]) -> None:
        """Buffer messages to be published at the end of the block; a full buffer is stored with the service."""
        script.perform(self._coordinator.add(namespace, name, payloads), self._do)

    def __enter__(self) -> Self:
        script.perform(self._coordinator.begin(), self._do)
        renewal = Renewal(self._client, self._pointer, timeout_seconds=self._coordinator.timeout_seconds)
        self._keep(renewal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            script.perform(self._coordinator.finish(error), self._do)
        finally:
            self._end_renewal()

    def _do(self, step: Step[Participant]) -> Any:
        match step:
            case Persist(participant):
                participant.persist()
            case RollBack(participant):
                participant.rollback()
            case asked:
                return self._client.take(asked)


class AsyncTransactionContext(_Context[AwaitingClient, AsyncParticipant]):
    """For one task."""

    async def publish(self, namespace: str, name: str, payloads: Sequence[bytes]) -> None:
        """Buffer messages to be published at the end of the block; a full buffer is stored with the service."""
        await script.perform_async(self._coordinator.add(namespace, name, payloads), self._do)

    async def __aenter__(self) -> Self:
        await script.perform_async(self._coordinator.begin(), self._do)
        renewal = AsyncRenewal(self._client, self._pointer, timeout_seconds=self._coordinator.timeout_seconds)
        self._keep(renewal)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await script.perform_async(self._coordinator.finish(error), self._do)
        finally:
            self._end_renewal()

    async def _do(self, step: Step[AsyncParticipant]) -> Any:
        match step:
            case Persist(participant):
                await participant.persist()
            case RollBack(participant):
                await participant.rollback()
            case asked:
                return await self._client.take(asked)
