"""A transaction renewed in the background, by a thread or a task.

    with Renewal(client, pointer, timeout_seconds=60) as renewal:
        for part in hours_of_work:
            renewal.check()          # raises TransactionLost as soon as it is known
            client.store_in(pointer, "default", "orders", part)

Leaving the block only ends the renewals: commit or abort inside it.  ``TransactionContext`` does all this by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from types import TracebackType
from typing import Any, Self

from fairlead_messaging.client import renewal, script
from fairlead_messaging.client.errors import TransactionLost
from fairlead_messaging.client.methods import AwaitingClient, BlockingClient
from fairlead_messaging.client.request import ClientRequest
from fairlead_messaging.client.script import Pause

LEAVE_SECONDS = 1.0
"""How long leaving waits for a renewal that is under way; it harms nothing afterwards."""


class _Ended(BaseException):
    """The block was left."""


class _RenewalResult:
    """What renewing a transaction found out."""

    _lost: TransactionLost | None = None

    @property
    def lost(self) -> TransactionLost | None:
        """Why it cannot commit any more, once that is known."""
        return self._lost

    def check(self) -> None:
        """Raises ``TransactionLost`` once that is known."""
        if self._lost is not None:
            raise self._lost


class Renewal(_RenewalResult):
    """For a ``Client`` or ``BulkClient``; its thread asks beside the caller's."""

    def __init__(self, client: BlockingClient, pointer: int, *, timeout_seconds: float) -> None:
        self._client = client
        self._script = renewal.keep(pointer, timeout_seconds, time.monotonic)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transaction-renewal", daemon=True)

    def start(self) -> None:
        """As entering the block."""
        self._thread.start()

    def stop(self) -> None:
        """As leaving the block; twice is as good as once."""
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
    """The same with ``async with``, for an ``AsyncClient``."""

    def __init__(self, client: AwaitingClient, pointer: int, *, timeout_seconds: float) -> None:
        self._client = client
        self._script = renewal.keep(pointer, timeout_seconds, time.monotonic)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """As entering the block."""
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """As leaving the block; twice is as good as once."""
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
