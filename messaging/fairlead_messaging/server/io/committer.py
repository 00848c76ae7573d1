"""Group commit: all waiting commands become one durable write.

Commands run in order, one at a time, on the event loop (in the writer's thread if they are large or the store is behind
a network); the write waits in a thread.  While one batch is being written the next one gathers, so batches grow with
the load and no request waits for a timer.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fairlead_messaging.api.errors import MessagingError, StorageError, Unavailable
from fairlead_messaging.server.commands import Command
from fairlead_messaging.server.service import Service
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV
from fairlead_wire.io import logs

GROUP_BYTES_MAX = 8 * 1024 * 1024
"""A batch is closed once it holds this many bytes; the rest waits for the next."""

LARGE_BYTES = 256 * 1024
"""Commands from this size on run in a thread, so that others are answered meanwhile."""

WAITING_BYTES_MAX = 64 * 1024 * 1024
WAITING_COMMANDS_MAX = 10_000
"""Beyond these limits callers are asked to retry later."""

RETRY_AFTER_SECONDS = 1.0
DISK_REMEDY = "free space on data_dir's disk, or make it writable; the service then resumes by itself"
REMOTE_REMEDY = "check why the nodes of the store do not answer; the service resumes by itself once they do"
LOG_SECONDS = 10.0
"""How often a persistent failure of the store is logged."""

_log = logs.get("messaging.committer")

T = TypeVar("T")


class Committer:
    """The only writer of the store.  ``on_advanced`` is called with the topics that have new messages."""

    def __init__(
        self,
        kv: OrderedKV,
        service: Service,
        now_ms: Callable[[], int],
        on_advanced: Callable[[set[tuple[str, str]]], None],
    ) -> None:
        self._kv = kv
        self._service = service
        self._now_ms = now_ms
        self._on_advanced = on_advanced
        self._waiting: deque[tuple[Command[Any], int, asyncio.Future[Any]]] = deque()
        self._waiting_bytes = 0
        self._writer = ThreadPoolExecutor(1, "writer")
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self.batches = 0
        self.failures = 0
        self.healthy = True
        """Whether the last write succeeded."""
        self.written_at = time.monotonic()
        """When the last write succeeded, by the monotonic clock."""
        self._failed_in_a_row = 0
        self._logged_at = 0.0

    @property
    def waiting(self) -> int:
        """How many commands are not in a batch yet."""
        return len(self._waiting)

    async def submit(self, command: Command[T], size: int = 0) -> T:
        """Run a command and return its answer once that is durable.

        Raises: MessagingError; Unavailable if the store failed or too much is waiting.
        """
        if self._closing:
            raise Unavailable("the service is stopping", retry_after_seconds=RETRY_AFTER_SECONDS)
        if self._waiting_bytes + size > WAITING_BYTES_MAX or len(self._waiting) >= WAITING_COMMANDS_MAX:
            raise Unavailable(
                "too much is waiting to be written", code="overloaded", retry_after_seconds=RETRY_AFTER_SECONDS
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append((command, size, future))
        self._waiting_bytes += size
        if self._task is None:
            self._task = loop.create_task(self._run())
        return await future

    async def close(self) -> None:
        """Write the waiting commands, then refuse all further ones."""
        self._closing = True
        if self._task is not None:
            await self._task
        self._writer.shutdown()

    async def _run(self) -> None:
        while self._waiting:
            if not self.healthy and not await self._is_back():
                continue
            batch, answers = await self._gather()
            if answers:
                await self._write(batch, answers)
        self._task = None

    async def _is_back(self) -> bool:
        """After a failure, try an empty write: it may reopen the store, which the next commands have to read.

        While that fails, all waiting commands are refused at once.
        """
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._kv.apply, Batch())
        except StorageError as error:
            answers: list[tuple[asyncio.Future[Any], Any]] = [(future, None) for _, _, future in self._waiting]
            self._waiting.clear()
            self._waiting_bytes = 0
            self._note_failure(error, answers)
            return False
        return True

    async def _gather(self) -> tuple[Batch, list[tuple[asyncio.Future[Any], Any]]]:
        batch = Batch()
        answers: list[tuple[asyncio.Future[Any], Any]] = []
        now_ms = self._now_ms()
        while self._waiting and batch.size < GROUP_BYTES_MAX:
            command, size, future = self._waiting.popleft()
            self._waiting_bytes -= size
            try:
                answers.append((future, await self._judge(command, size, batch, now_ms)))
            except MessagingError as error:
                # A refusal may depend on an earlier command of this batch, so it waits for the write too.
                answers.append((future, error))
            except StorageError as error:
                answers.append((future, None))
                self._note_failure(error, answers)
                return Batch(), []
            except Exception as error:  # noqa: BLE001 - a failing command or read must not end the writer
                _log.exception("proposal_failed", command=type(command).__name__)
                answers.append((future, None))
                self._fail_all(answers, error)
                return Batch(), []
        self._service.close_batch(batch)
        return batch, answers

    async def _judge(self, command: Command[T], size: int, batch: Batch, now_ms: int) -> T:
        if size < LARGE_BYTES and not self._kv.is_remote:
            return self._service.propose(command, batch, now_ms)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writer, self._service.propose, command, batch, now_ms)

    async def _write(self, batch: Batch, answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
        if len(batch):
            try:
                await asyncio.get_running_loop().run_in_executor(self._writer, self._kv.apply, batch)
            except StorageError as error:
                self._note_failure(error, answers)
                return
            self.batches += 1
            self.written_at = time.monotonic()
            if not self.healthy:
                _log.info("store_writes_again", failures=self._failed_in_a_row)
            self.healthy, self._failed_in_a_row = True, 0
        advanced = self._service.applied()
        for future, answer in answers:
            if future.done():
                continue
            if isinstance(answer, MessagingError):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        if advanced:
            self._on_advanced(advanced)

    def _note_failure(self, error: StorageError, answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
        """Refuse the batch; only some failures are logged, because every command fails while a disk is full."""
        self.healthy = False
        self._failed_in_a_row += 1
        now = time.monotonic()
        if self._failed_in_a_row == 1 or now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            _log.error(
                "store_write_failed", reason=str(error), commands=len(answers), failures=self._failed_in_a_row,
                remedy=(REMOTE_REMEDY if self._kv.is_remote else DISK_REMEDY),
            )  # fmt: skip
        self._fail_all(answers, error)

    def _fail_all(self, answers: list[tuple[asyncio.Future[Any], Any]], error: Exception) -> None:
        """Discard the state that assumed the batch was stored, and tell every caller that this is unknown."""
        self.failures += 1
        self._service.forget()
        for future, _ in answers:
            if not future.done():
                failed = Unavailable(
                    "the store failed; this may have taken effect or not, repeat it",
                    code="storage_failed",
                    retry_after_seconds=RETRY_AFTER_SECONDS,
                )
                failed.__cause__ = error
                future.set_exception(failed)


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
