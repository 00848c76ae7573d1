"""A transaction around several participants, messaging the last of them, for programs without an event loop.

    with SyncUnitOfWork(client, participants=[table]) as work:
        table.write(…)
        work.publish("default", "changes", [b"…"])

On leaving: each participant persists in turn, then the messages are published, then the transaction commits.  On any
failure everything is rolled back and the transaction aborted; if a rollback fails too, it is invalidated, which hides
its messages all the same.  Messages are buffered here; a full buffer is stored with the service.
``InDoubt``: the commit was sent and nobody could say whether it happened; nothing was rolled back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from fairlead_messaging.api.responses import Started
from fairlead_messaging.client.io.sync_client import SyncMessagingClient
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


class SyncParticipant(Protocol):
    """Somebody whose changes stand or fall with the messages."""

    def changes(self) -> Sequence[str]:
        """Keys changed, for conflict detection; may be empty."""
        ...

    def persist(self) -> None:
        """Write; may still be rolled back."""
        ...

    def rollback(self) -> None:
        """Undo what ``persist`` wrote, also when it wrote only a part."""
        ...


class SyncUnitOfWork:
    """One use, one transaction, one thread."""

    def __init__(
        self,
        client: SyncMessagingClient,
        *,
        participants: Sequence[SyncParticipant] = (),
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

    def publish(self, namespace: str, name: str, payloads: Sequence[bytes]) -> None:
        """Published when the work is done.  A full buffer is stored with the service at once."""
        self._run(self._undertaking.add(namespace, name, payloads))

    def __enter__(self) -> Self:
        self._run(self._undertaking.begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._undertaking.finish(error))

    def _run(self, script: Script[SyncParticipant]) -> None:
        step = advance(script)
        while step is not None:
            try:
                result = self._do(step)
            except BaseException as met:  # noqa: BLE001 - the script knows what to undo, and raises it again
                step = advance(script, error=met)
            else:
                step = advance(script, result)

    def _do(self, step: Step[SyncParticipant]) -> Any:
        match step:
            case Persist(participant):
                participant.persist()
            case RollBack(participant):
                participant.rollback()
            case Pause(seconds):
                time.sleep(seconds)
            case call:
                return self._client.do(call)
