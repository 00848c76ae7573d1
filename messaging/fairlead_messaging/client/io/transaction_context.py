"""A transaction around several participants, messaging the last of them, for asyncio programs.

    async with UnitOfWork(client, participants=[table]) as work:
        table.write(…)
        await work.publish("default", "changes", [b"…"])

On leaving: each participant persists in turn, then the messages are published, then the transaction commits.  On any
failure everything is rolled back and the transaction aborted; if a rollback fails too, it is invalidated, which hides
its messages all the same.  Messages are buffered here; a full buffer is stored with the service.
``InDoubt``: the commit was sent and nobody could say whether it happened; nothing was rolled back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from fairlead_messaging.api.responses import Started
from fairlead_messaging.client.io.async_client import MessagingClient
from fairlead_messaging.client.transaction_coordinator import (
    BUFFER_BYTES_MAX,
    Pause,
    Persist,
    RollBack,
    Script,
    Step,
    Undertaking,
    advance,
)


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
    """One use, one transaction, one task."""

    def __init__(
        self,
        client: MessagingClient,
        *,
        participants: Sequence[Participant] = (),
        timeout_seconds: float | None = None,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
    ) -> None:
        self._client = client
        self._undertaking = Undertaking(
            participants, timeout_seconds=timeout_seconds, buffer_bytes_max=buffer_bytes_max
        )

    @property
    def started(self) -> Started:
        """The transaction; poll with its snapshot to see what it may see.  Raises ``LocalError`` outside the block."""
        return self._undertaking.started

    @property
    def failures(self) -> Sequence[BaseException]:
        """What went wrong while rolling back; the messages are hidden all the same, at the latest by the timeout."""
        return self._undertaking.failures

    async def publish(self, namespace: str, name: str, payloads: Sequence[bytes]) -> None:
        """Published when the work is done.  A full buffer is stored with the service at once."""
        await self._run(self._undertaking.add(namespace, name, payloads))

    async def __aenter__(self) -> Self:
        await self._run(self._undertaking.begin())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._run(self._undertaking.finish(error))

    async def _run(self, script: Script[Participant]) -> None:
        step = advance(script)
        while step is not None:
            try:
                result = await self._do(step)
            except BaseException as met:  # noqa: BLE001 - the script knows what to undo, and raises it again
                step = advance(script, error=met)
            else:
                step = advance(script, result)

    async def _do(self, step: Step[Participant]) -> Any:
        match step:
            case Persist(participant):
                await participant.persist()
            case RollBack(participant):
                await participant.rollback()
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case call:
                return await self._client.do(call)
