"""Writing a DataFrame, or each batch of a stream, into a topic: all of it or nothing, in one long transaction.

    writer (driver) begins ─→ tasks store their rows under it ─→ commit: publish what was stored, commit
                                                                  abort: no reader ever sees a row

Tasks renew the transaction while they store, so a write may take hours, and none of it holds up a reader before the
commit. It lives ``transactionSeconds`` without them: before the first row, and from the last one to the commit.
Readers see the rows when the transaction is committed, in the order of the tasks' stores. A task that Spark tries again
would store its rows twice under the same transaction, so the whole write is given up instead; run it again.

A stream writes each batch once:

    write (each task)   the first to come begins the batch's transaction and leaves its pointer beside the checkpoint;
                        all store their rows under it
    commit (driver)     publish (unseen yet) → note "batch 12 is transaction 97", fsync → commit the transaction
    tried again         the note is there: transaction 97 is committed now if it was not, what was stored again aborted

So whatever is killed when, readers of committed rows see every batch once, all of it or nothing. The note is only made
when nothing but the commit is missing, and a transaction is committed or not as a whole: the service says which. It
remembers for a day; a stream that was down longer right between note and commit stops and asks. The checkpoint is a
folder that driver and tasks can reach. When Spark tries a task again, the query ends; started again, it gives the batch
a transaction of its own.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from fairlead_ingest import errors
from fairlead_ingest.io.table.files import sync
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.retry import reachable
from fairlead_messaging.client.errors import InDoubt, TransactionOver
from fairlead_messaging.client.io.sync_client import BulkClient
from fairlead_messaging.client.io.transaction_context import Renewal
from fairlead_wire.errors import Permanent, Temporary

PAYLOAD = "payload"
STORE_ROWS = 1_000
STORE_BYTES = 3 * 1024 * 1024
"""Of payloads; in JSON a third more."""


@dataclass
class TaskStored(WriterCommitMessage):
    """How many rows one task stored."""

    rows: int


class TopicWriter(DataSourceArrowWriter):
    """Column ``payload`` (binary or text) into the one topic of the options. Made in the driver, where it begins."""

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        if len(options.topics) != 1:
            raise errors.Stop(errors.BAD_OPTION, "topics: exactly one to write into")
        if PAYLOAD not in columns:
            raise errors.Stop(errors.BAD_OPTION, f"{PAYLOAD}: the column that is written; there is {columns}")
        self._options = options
        self._topic = options.topics[0]
        with options.client() as client, reachable():
            self._pointer = client.start_transaction(options.transaction_seconds)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskStored:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            raise errors.Stop(errors.TASK_REPEATED, "a task was tried again; the whole write is given up, run it again")
        rows = 0
        with self._options.client() as client, kept_alive(client, self._pointer, self._options) as renewal:
            for batch in iterator:
                for payloads in portions(batch[PAYLOAD].to_pylist()):
                    renewal.check()
                    client.store_in(self._pointer, self._topic, payloads)
                    rows += len(payloads)
        return TaskStored(rows=rows)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        stored = sum(message.rows for message in messages if isinstance(message, TaskStored))
        with self._options.client() as client, reachable(), lost_is_told():
            if stored:
                client.publish_stored(self._pointer, self._topic)
            try:
                client.commit(self._pointer)
            except InDoubt as doubt:
                raise errors.Stop(
                    errors.BATCH_UNKNOWN,
                    f"look whether the rows are in {self._topic} before they are written again: {doubt}",
                ) from doubt

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with self._options.client() as client:
            try:
                client.abort(self._pointer)
            except (Temporary, Permanent):
                return  # it ends by its timeout, and no reader sees its rows meanwhile


@contextmanager
def kept_alive(client: BulkClient, pointer: int, options: SourceOptions) -> Iterator[Renewal]:
    """Renewed in the background, however long a task computes between two of its rows."""
    with (
        reachable(),
        lost_is_told(),
        Renewal(client, pointer, timeout_seconds=options.transaction_seconds) as renewal,
    ):
        yield renewal


@contextmanager
def lost_is_told() -> Iterator[None]:
    """Turns the end of a transaction under a write into a coded reason that survives Spark's wrapping."""
    try:
        yield
    except TransactionOver as over:
        raise errors.Stop(
            errors.TRANSACTION_LOST,
            f"{over.reason or over}; no reader will see a row of it, so write it again (transactionSeconds: how long it"
            " lives while no task renews it)",
        ) from over


def portions(payloads: list[Any]) -> Iterator[list[bytes]]:
    """For requests of bounded rows and bytes."""
    portion: list[bytes] = []
    size = 0
    for payload in payloads:
        content = payload.encode() if isinstance(payload, str) else payload or b""
        if portion and (len(portion) >= STORE_ROWS or size + len(content) > STORE_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(content)
        size += len(content)
    if portion:
        yield portion


FOLDER = "fairlead_topic"
BATCH_PROPERTY = "streaming.sql.batchId"
# A stream's jobs are grouped by the run of its query; a restart is another run.
RUN_PROPERTY = "spark.jobGroup.id"
# What a person writes into a note that the service cannot speak to any more.
DONE = "done"


@dataclass
class StreamTaskStored(WriterCommitMessage):
    """How many rows one task stored, and under which transaction; None when it had no row."""

    rows: int
    pointer: int | None


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Column ``payload`` (binary or text) into the one topic of the options."""

    def __init__(self, options: SourceOptions, columns: list[str], checkpoint: Path) -> None:
        if len(options.topics) != 1:
            raise errors.Stop(errors.BAD_OPTION, "topics: exactly one to write into")
        if PAYLOAD not in columns:
            raise errors.Stop(errors.BAD_OPTION, f"{PAYLOAD}: the column that is written; there is {columns}")
        self._options = options
        self._topic = options.topics[0]
        self._folder = checkpoint / FOLDER

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamTaskStored:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() > 0:
            raise errors.Stop(errors.TASK_REPEATED, "a task was tried again; start the query again")
        batch, run = context.getLocalProperty(BATCH_PROPERTY), context.getLocalProperty(RUN_PROPERTY)
        assert batch is not None and run is not None, "Spark says of every streaming task whose it is"
        return self.store(iterator, f"{batch}-{run}")

    def store(self, iterator: Iterator[pa.RecordBatch], attempt: str) -> StreamTaskStored:
        """Store the rows under the transaction of this attempt at a batch."""
        batches = (batch[PAYLOAD].to_pylist() for batch in iterator)
        parts = (payloads for rows in batches for payloads in portions(rows))
        part, rows = next(parts, None), 0
        if part is None:
            return StreamTaskStored(rows=0, pointer=None)
        with self._options.client() as client:
            with reachable():
                pointer = self._transaction(client, attempt)
            with kept_alive(client, pointer, self._options) as renewal:
                while part is not None:
                    renewal.check()
                    client.store_in(pointer, self._topic, part)
                    rows += len(part)
                    part = next(parts, None)
        return StreamTaskStored(rows=rows, pointer=pointer)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pointers = {message.pointer for message in messages if isinstance(message, StreamTaskStored)} - {None}
        if len(pointers) > 1:
            raise errors.Stop(errors.TASK_REPEATED, f"batch {batchId} was stored by several attempts; start again")
        pointer = pointers.pop() if pointers else None
        note = self._folder / f"{batchId}.note"
        with self._options.client() as client, reachable():
            if note.exists() and _finished(client, note, batchId):
                if pointer is not None:
                    _give_up(client, pointer)
                return
            if pointer is None:
                return
            with lost_is_told():
                client.publish_stored(pointer, self._topic)
            _write(note, str(pointer))
            _commit(client, pointer)
        self._tidy(batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: Spark also calls it after a commit that failed after having committed. Time ends what is open."""

    # --- inside

    def _transaction(self, client: BulkClient, attempt: str) -> int:
        """The one all tasks of this attempt share; made by the task that comes first."""
        place = self._folder / attempt
        if not place.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            begun = client.start_transaction(self._options.transaction_seconds)
            draft = self._folder / f".{uuid.uuid4().hex}"
            try:
                draft.write_text(str(begun))
                os.link(draft, place)
            except FileExistsError:
                _give_up(client, begun)
            finally:
                draft.unlink(missing_ok=True)
        return int(place.read_text())

    def _tidy(self, batch: int) -> None:
        """What earlier batches left; Spark's own log has this one's predecessor."""
        for path in self._folder.iterdir():
            number = path.name.partition("-")[0].removesuffix(".note")
            if number.isdigit() and int(number) < batch:
                path.unlink(missing_ok=True)


def _finished(client: BulkClient, note: Path, batch: int) -> bool:
    """Commit what was noted, if it still can be; False when its rows will never be seen. Raises ``Stop``."""
    pointer = note.read_text().strip()
    if pointer == DONE:
        return True
    if not pointer.isdecimal():
        raise errors.Stop(errors.BATCH_UNKNOWN, f"{note} names no transaction; write {DONE} into it, or remove it")
    try:
        _commit(client, int(pointer))
    except TransactionOver as over:
        if over.state == "unknown":
            raise errors.Stop(
                errors.BATCH_UNKNOWN,
                f"batch {batch} was to be published by transaction {pointer}, which the service no longer remembers:"
                f" look whether its rows are in the topic; if they are, write {DONE} into {note}, if not, remove it",
            ) from over
        return over.state == "committed"
    return True


def _commit(client: BulkClient, pointer: int) -> None:
    """Raises ``Wait`` when no answer came: the note is there, so the next attempt asks again."""
    try:
        client.commit(pointer)
    except InDoubt as doubt:
        raise errors.Wait(errors.UNREACHABLE, str(doubt)) from doubt


def _give_up(client: BulkClient, pointer: int) -> None:
    try:
        client.abort(pointer)
    except (Temporary, Permanent):
        return  # it ends by its timeout, and no reader sees its rows meanwhile


def _write(path: Path, text: str) -> None:
    """All of it or nothing, on disk."""
    draft = path.with_name(f".{uuid.uuid4().hex}")
    draft.write_text(text)
    sync(draft)
    draft.replace(path)
    sync(path.parent)
