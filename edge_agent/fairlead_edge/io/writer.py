"""One writer thread for one SQLite file: durable before it answers, many callers to a commit.

    submit ─┐                       ┌─ savepoint: job ─┐
    submit ─┼─▶ queue ─drain▶ BEGIN ┼─ savepoint: job ─┼ COMMIT (fsync) ─▶ all futures, one wake-up of the loop
    submit ─┘                       └─ savepoint: job ─┘
    read ─────▶ reader thread, read-only connection, one snapshot per call

WAL with synchronous=FULL: an answer means that the bytes were flushed (architecture decision 1).  There is no
timer: whatever queued up while the last commit was flushing is the next commit, so one caller pays one flush and
a thousand callers share one.  A job that raises fails alone.  A full disk raises ``StoreFull`` and leaves the
store as it was.  After any other error of the disk nothing it says can be believed (a failed fsync may have
dropped the pages it could not write): the writer refuses everything from then on and the program should end, so
that the next start reads what is really there.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from fairlead_edge.errors import StoreFailed, StoreFull
from fairlead_wire.errors import LocalError, Temporary

__all__ = ["StoreFailed", "StoreFull", "Writer"]

PENDING_MAX: Final = 20_000
"""Jobs that may wait for the disk; more are refused, so that memory stays bounded when it stalls."""
JOBS_PER_COMMIT_MAX: Final = 2_000
"""Keeps one transaction, and so the wait of its first caller, short."""
BUSY_RETRY_SECONDS: Final = 1.0

T = TypeVar("T")
Job = Callable[[apsw.Connection], Any]


class Writer:
    """Owns the file at ``path``.  ``setup`` creates or migrates the schema, in a transaction of its own.

    Raises ``apsw.Error`` from the constructor when the file cannot be opened.  Jobs run on the writer's thread;
    a job may be run twice (when its first transaction had to be given up because of another), so it should touch
    only the connection and return what it found.
    """

    def __init__(self, path: Path, *, setup: Callable[[apsw.Connection], None]) -> None:
        self._connection = _open(path, setup)
        self._reader_connection = _open_reader(path)
        self._queue: queue.SimpleQueue[tuple[Job, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._failure: Exception | None = None
        self._closed = False
        self.commits = 0
        """Transactions committed so far."""
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"read-{path.stem}")
        self._thread = threading.Thread(target=self._run, name=f"write-{path.stem}", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> Exception | None:
        """Why the disk cannot be trusted any more; None while all is well."""
        return self._failure

    async def submit(self, job: Callable[[apsw.Connection], T]) -> T:
        """Run ``job`` in a transaction; returns after it is durable.

        Raises what the job raised (its changes are undone, nobody else's), ``StoreFull``, ``StoreFailed``, or
        ``Temporary`` when ``PENDING_MAX`` jobs wait already.  A cancelled caller's job may still be committed.
        """
        if self._closed:
            raise LocalError("the store is closed")
        if self._queue.qsize() >= PENDING_MAX:
            raise Temporary("too many writes wait for the disk", retry_after_seconds=BUSY_RETRY_SECONDS)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put((job, future))
        return await future

    async def read(self, query: Callable[[apsw.Connection], T]) -> T:
        """Run ``query`` on the read-only connection, in one snapshot that holds every answered ``submit``."""
        if self._closed:
            raise LocalError("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._in_snapshot, query)

    async def close(self) -> None:
        """Commit what is queued, then close the file.  Nothing can be submitted afterwards."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._thread.join)
        await loop.run_in_executor(self._reader, self._reader_connection.close)
        self._reader.shutdown()
        self._connection.close()

    def _in_snapshot(self, query: Callable[[apsw.Connection], T]) -> T:
        execute = self._reader_connection.execute
        execute("BEGIN")
        try:
            return query(self._reader_connection)
        finally:
            execute("COMMIT")

    def _run(self) -> None:
        ended = False
        while not ended:
            taken = [self._queue.get()]
            with contextlib.suppress(queue.Empty):
                while len(taken) < JOBS_PER_COMMIT_MAX:
                    taken.append(self._queue.get_nowait())
            ended = None in taken
            jobs = [item for item in taken if item is not None]
            if jobs:
                self._answer(self._commit(jobs))

    def _commit(self, jobs: list[tuple[Job, asyncio.Future[Any]]]) -> list[tuple[asyncio.Future[Any], Any, bool]]:
        """All jobs in one transaction; when that is impossible each in its own.  (future, outcome, worked)."""
        if self._failure is not None:
            return [(future, self._failed(), False) for _, future in jobs]
        execute = self._connection.execute
        answers: list[tuple[asyncio.Future[Any], Any, bool]] = []
        try:
            execute("BEGIN IMMEDIATE")
            for job, future in jobs:
                execute("SAVEPOINT job")
                try:
                    outcome, worked = job(self._connection), True
                except Exception as error:
                    if not self._connection.in_transaction:
                        raise  # SQLite gave up the whole transaction (disk full, I/O): the others must run again
                    outcome, worked = error, False
                    execute("ROLLBACK TO job")
                execute("RELEASE job")
                answers.append((future, outcome, worked))
            execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - sorted into full, failed and the job's own
            self._roll_back()
            if len(jobs) > 1 and not _is_disk_failure(error):
                return [answer for job in jobs for answer in self._commit([job])]
            return [(future, self._sorted(error), False) for _, future in jobs]
        self.commits += 1
        return answers

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with contextlib.suppress(apsw.Error):  # the error that brought us here is the one to tell
                self._connection.execute("ROLLBACK")

    def _sorted(self, error: Exception) -> Exception:
        if isinstance(error, apsw.FullError):
            return StoreFull("the disk is full")
        if _is_disk_failure(error):
            self._failure = error
            return self._failed()
        return error

    def _failed(self) -> StoreFailed:
        return StoreFailed(f"the disk failed and nothing more is written: {self._failure}")

    def _answer(self, answers: list[tuple[asyncio.Future[Any], Any, bool]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any, bool]]] = {}
        for answer in answers:
            by_loop.setdefault(answer[0].get_loop(), []).append(answer)
        for loop, theirs in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve, theirs)


def _resolve(answers: list[tuple[asyncio.Future[Any], Any, bool]]) -> None:
    for future, outcome, worked in answers:
        if future.done():
            continue  # its caller was cancelled
        if worked:
            future.set_result(outcome)
        else:
            future.set_exception(outcome)


def _is_disk_failure(error: Exception) -> bool:
    return isinstance(error, (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.ReadOnlyError))


def _open(path: Path, setup: Callable[[apsw.Connection], None]) -> apsw.Connection:
    connection = apsw.Connection(str(path), statementcachesize=200)
    connection.set_busy_timeout(5_000)
    for pragma in (
        "auto_vacuum=INCREMENTAL",  # of a new file: what was drained can be given back to the file system
        "journal_mode=WAL",
        "synchronous=FULL",
        "wal_autocheckpoint=500",  # pages of 4 KiB: folded back in steps short enough for those who wait meanwhile
        "journal_size_limit=16777216",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("BEGIN IMMEDIATE")
    try:
        setup(connection)
    except BaseException:
        connection.execute("ROLLBACK")
        connection.close()
        raise
    connection.execute("COMMIT")
    return connection


def _open_reader(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, statementcachesize=100)
    connection.set_busy_timeout(5_000)
    return connection
