"""One writer thread for one SQLite file, with group commit: a call returns when its changes are durable.

    submit ─┐                       ┌─ savepoint: job ─┐
    submit ─┼─▶ queue ─drain▶ BEGIN ┼─ savepoint: job ─┼ COMMIT (fsync) ─▶ all futures, one wake-up of the loop
    submit ─┘                       └─ savepoint: job ─┘
    read ─────▶ reader thread, read-only connection, one snapshot per call

WAL with synchronous=FULL: a result means that the bytes were flushed.  There is no timer: all jobs that were queued
during a flush form the next commit, so a single caller pays for one flush and a thousand callers share one.  A job that
raises fails alone.

A full disk raises ``StoreFull`` and leaves the store as it was.  Freeing room works on a full disk (``disk_space``):
the file has its blocks before a commit makes it longer, so the log can always be checkpointed and reused.

After an I/O error the disk cannot be trusted (a failed fsync may have dropped the pages it could not write): the writer
refuses everything from then on and the program should exit, so that the next start reads what is really on disk.  A
damaged file raises ``StoreDamaged``: it is salvaged when it is reopened.
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

from fairlead_edge.errors import StoreDamaged, StoreFailed, StoreFull
from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.sqlite import schema_pages
from fairlead_edge.io.sqlite import statements as sql
from fairlead_edge.io.sqlite.disk_space import FREE_SOME, Room
from fairlead_edge.io.sqlite.rows import rows
from fairlead_wire import errors
from fairlead_wire.errors import FairleadError, LocalError, Temporary
from fairlead_wire.io import logs

PENDING_MAX: Final = 20_000
"""How many jobs may be queued; more are refused, which bounds memory when the disk stalls."""
JOBS_PER_COMMIT_MAX: Final = 2_000
"""Keeps a transaction, and thus the wait of its first caller, short."""
BUSY_RETRY_SECONDS: Final = 1.0

_DAMAGE_CODES: Final = (
    apsw.SQLITE_IOERR_SHORT_READ,
    apsw.SQLITE_IOERR_CORRUPTFS,
    apsw.SQLITE_IOERR_DATA,
)

_log = logs.get("edge.store")

T = TypeVar("T")
Job = Callable[[apsw.Connection], Any]
Audit = Callable[[apsw.Connection], str]
"""Returns what is wrong with the file; "" if nothing is."""


def sound(_: apsw.Connection) -> str:
    """An audit that finds nothing."""
    return ""


class SqliteWriter:
    """Owns the file at ``path``.  ``setup`` creates or migrates the schema, in its own transaction.

    ``audit`` is called when a job or a query fails unexpectedly: by a value of the wrong type, or a missing row.
    ``closing`` runs at the end of every transaction; the function that it returns is called after the commit.

    The constructor raises ``apsw.Error`` if the file cannot be opened.  Jobs run on the writer's thread.  A job may run
    twice (if its first transaction was rolled back because of another job), so it should use only the connection and
    return its result.
    """

    def __init__(
        self,
        path: Path,
        *,
        setup: Callable[[apsw.Connection], None],
        audit: Audit = sound,
        closing: Callable[[apsw.Connection], Callable[[], None]] | None = None,
        access: FileAccess = PLAIN,
    ) -> None:
        self._audit = audit
        self._closing = closing
        self._connection = _open(path, setup, access)
        try:
            self._reader_connection = _open_reader(path, access)
        except apsw.Error:
            self._connection.close()
            raise
        self._folder = path.parent
        self._room = Room(path)
        self._refused_for_space = False
        schema_pages.keep(self._connection, self._room.file, Path(f"{path}{access.schema_end}"))
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failed = asyncio.Event()
        """Set when ``failure`` is."""
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
        """Why the disk cannot be trusted any more; None while it works."""
        return self._failure

    @property
    def is_disk_full(self) -> bool:
        """The disk, not the store's own limit, refused a write, and there is still no room on it."""
        if self._refused_for_space and not self._room.is_short():
            self._refused_for_space = False
        return self._refused_for_space

    def damaged(self, reason: str) -> None:
        """Damage was found elsewhere: refuse everything from now on."""
        self._fail(StoreDamaged(reason))

    async def submit(self, job: Callable[[apsw.Connection], T]) -> T:
        """Run ``job`` in a transaction; returns when it is durable.

        Raises the job's exception (only its own changes are undone), ``StoreFull``, ``StoreFailed``, or ``Temporary``
        if ``PENDING_MAX`` jobs are queued.  If the caller is cancelled, the job may still be committed.
        """
        if self._closed:
            raise LocalError("the store is closed")
        if self._queue.qsize() >= PENDING_MAX:
            raise Temporary("too many writes wait for the disk", retry_after_seconds=BUSY_RETRY_SECONDS)
        self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((job, future))
        return await future

    async def read(self, query: Callable[[apsw.Connection], T]) -> T:
        """Run ``query`` on the read-only connection, in a snapshot that includes every finished ``submit``."""
        if self._closed:
            raise LocalError("the store is closed")
        self._loop = asyncio.get_running_loop()
        return await self._loop.run_in_executor(self._reader, self._in_snapshot, query)

    async def close(self) -> None:
        """Commit all queued jobs, then close the file.  Nothing can be submitted afterwards."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._thread.join)
        await loop.run_in_executor(self._reader, self._reader_connection.close)
        self._reader.shutdown()
        if isinstance(self._failure, StoreDamaged):  # leave the log to the salvage
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.close()
        self._room.close()

    def _in_snapshot(self, query: Callable[[apsw.Connection], T]) -> T:
        connection = self._reader_connection
        try:
            connection.execute(sql.BEGIN)
            try:
                return query(connection)
            finally:
                if connection.in_transaction:
                    connection.execute(sql.COMMIT)
        except FairleadError:
            raise
        except Exception as error:
            raise self._classified(error, connection) from error

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
        """Run all jobs in one transaction, or each in its own if that fails.  Returns (future, outcome, worked)."""
        if self._failure is not None:
            return [(future, self.error(), False) for _, future in jobs]
        answers: list[tuple[asyncio.Future[Any], Any, bool]] = []
        try:
            committed = self._transact(jobs, answers)
        except Exception as error:  # noqa: BLE001 - classified as disk full, disk failed, or the job's own
            self._roll_back()
            if isinstance(error, apsw.FullError) and self._room.is_short() and self._checkpoint():
                return self._again(jobs)
            if len(jobs) > 1 and not _is_disk_failure(error):
                return [answer for job in jobs for answer in self._commit([job])]
            return [(future, self._classified(error, self._connection), False) for _, future in jobs]
        self.commits += 1
        if committed is not None:
            committed()
        return answers

    def _again(self, jobs: list[tuple[Job, asyncio.Future[Any]]]) -> list[tuple[asyncio.Future[Any], Any, bool]]:
        """Run each job in its own transaction after a checkpoint; those that still do not fit fail."""
        answers: list[tuple[asyncio.Future[Any], Any, bool]] = []
        for job in jobs:
            mine: list[tuple[asyncio.Future[Any], Any, bool]] = []
            try:
                committed = self._transact([job], mine)
            except Exception as error:  # noqa: BLE001 - as above
                self._roll_back()
                mine = [(job[1], self._classified(error, self._connection), False)]
            else:
                self.commits += 1
                if committed is not None:
                    committed()
            answers += mine
        return answers

    def _transact(
        self, jobs: list[tuple[Job, asyncio.Future[Any]]], answers: list[tuple[asyncio.Future[Any], Any, bool]]
    ) -> Callable[[], None] | None:
        execute = self._connection.execute
        execute(sql.BEGIN_IMMEDIATE)
        for job, future in jobs:
            execute(sql.BEGIN_JOB)
            try:
                outcome, worked = job(self._connection), True
            except Exception as error:
                if not self._connection.in_transaction:
                    raise  # SQLite rolled back the whole transaction (disk full, I/O): the other jobs must run again
                if not isinstance(error, FairleadError):
                    error = self._classified(error, self._connection)
                    if isinstance(error, StoreFailed):
                        raise error from None
                outcome, worked = error, False
                execute(sql.UNDO_JOB)
            execute(sql.END_JOB)
            answers.append((future, outcome, worked))
        committed = self._closing(self._connection) if self._closing is not None else None
        self._room.take(self._connection)
        execute(sql.COMMIT)
        return committed

    def _checkpoint(self) -> bool:
        """Write the log into the file, whose blocks are allocated, so that the log can be reused."""
        try:
            busy = rows(self._connection, sql.CHECKPOINT_RESTART)[0][0]
        except apsw.Error:
            return False
        return not busy

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with contextlib.suppress(apsw.Error):  # the original error is the one to raise
                self._connection.execute(sql.ROLLBACK)

    def _classified(self, error: Exception, connection: apsw.Connection) -> Exception:
        if isinstance(error, FairleadError):
            return error
        if isinstance(error, apsw.FullError):
            if self._room.is_short() and not self._refused_for_space:
                self._refused_for_space = True
                _log.warning("disk_full", path=str(self._folder), remedy=FREE_SOME)
            return StoreFull("the disk is full")
        damage = _damage_named_by(error)
        if not damage and not _is_disk_failure(error):
            damage = _audited(self._audit, connection)
        if damage:
            return self._fail(StoreDamaged(damage))
        return self._fail(error) if _is_disk_failure(error) else error

    def _fail(self, error: Exception) -> StoreFailed:
        if self._failure is None:
            self._failure = error
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
                    self._loop.call_soon_threadsafe(self.failed.set)
        return self.error()

    def error(self) -> StoreFailed:
        """The failure as an exception for callers."""
        if isinstance(self._failure, StoreDamaged):
            return StoreDamaged(str(self._failure))
        return StoreFailed(f"the disk failed, and nothing more is written: {self._failure}")

    def _answer(self, answers: list[tuple[asyncio.Future[Any], Any, bool]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any, bool]]] = {}
        for answer in answers:
            by_loop.setdefault(answer[0].get_loop(), []).append(answer)
        for loop, theirs in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
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
    return isinstance(error, (apsw.IOError, apsw.ReadOnlyError, StoreFailed)) or bool(_damage_named_by(error))


def _damage_named_by(error: Exception) -> str:
    """Damage reported by SQLite.  Text that is not Unicode is damage, too, because none is ever stored."""
    is_short = isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in _DAMAGE_CODES
    if is_short or isinstance(error, (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)):
        return errors.text_of(error)
    return ""


def _audited(audit: Audit, connection: apsw.Connection) -> str:
    try:
        return audit(connection)
    except Exception as error:  # noqa: BLE001 - an audit that fails is a finding
        return f"it cannot be checked: {error}"


def _open(path: Path, setup: Callable[[apsw.Connection], None], access: FileAccess) -> apsw.Connection:
    connection = access.connect(path, statementcachesize=200)
    connection.set_busy_timeout(5_000)
    for pragma in sql.WRITER_SETTINGS:
        rows(connection, pragma)
    connection.execute(sql.BEGIN_IMMEDIATE)
    try:
        setup(connection)
    except BaseException:
        if connection.in_transaction:
            connection.execute(sql.ROLLBACK)
        connection.close()
        raise
    connection.execute(sql.COMMIT)
    return connection


def _open_reader(path: Path, access: FileAccess) -> apsw.Connection:
    connection = access.connect(path, flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(5_000)
    return connection
