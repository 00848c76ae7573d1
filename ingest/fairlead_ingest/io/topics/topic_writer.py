"""Writes a DataFrame, or each batch of a stream, into a topic in one transaction.

    writer (driver) begins ─→ tasks store their rows in it ─→ commit: publish the stored rows, commit
                                                               abort: no reader ever sees a row

Tasks renew the transaction while they store rows, so a write may take hours, without blocking readers before the
commit. Without renewal it lives ``transactionSeconds``, so the first row and the commit must come within that time.
Readers see the rows after the commit, in the order in which tasks stored them. A task that Spark retried would store
its rows twice in the transaction, so the whole write fails instead; run it again.

A stream writes each batch exactly once:

    write (each task)   the first task begins the batch's transaction and stores its pointer beside the checkpoint; all
                        tasks store their rows in it
    commit (driver)     publish (not visible yet) → write the note "batch 12 is transaction 97", fsync → commit
    retry               if the note exists, commit transaction 97 if necessary, and abort what was stored again

So readers of committed rows see each batch once and completely, whatever process is killed. The note is written when
only the commit is missing, and the service knows whether the transaction was committed. It remembers that for a day; a
stream that was down for longer, exactly between note and commit, stops and asks a person. Driver and tasks must reach
the checkpoint's folder. When Spark retries a task, the query ends; at its next start, the batch gets a new transaction.
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
"""Size of the payloads in one request; as JSON they take a third more."""


@dataclass
class TaskStored(WriterCommitMessage):
    """The number of rows that one task stored."""

    rows: int


class TopicWriter(DataSourceArrowWriter):
    """Writes the column ``payload`` (binary or text) to one topic. Created in the driver, where it begins."""

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
            raise errors.Stop(errors.TASK_REPEATED, "Spark retried a task, so the whole write has failed; run it again")
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
                    f"check whether the rows are in {self._topic} before you write them again: {doubt}",
                ) from doubt

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with self._options.client() as client:
            try:
                client.abort(self._pointer)
            except (Temporary, Permanent):
                return  # it ends by its timeout, and no reader sees its rows meanwhile


@contextmanager
def kept_alive(client: BulkClient, pointer: int, options: SourceOptions) -> Iterator[Renewal]:
    """Renew the transaction in the background, however long a task computes between two rows."""
    with (
        reachable(),
        lost_is_told(),
        Renewal(client, pointer, timeout_seconds=options.transaction_seconds) as renewal,
    ):
        yield renewal


@contextmanager
def lost_is_told() -> Iterator[None]:
    """Convert ``TransactionOver`` into ``Stop``, whose code survives Spark's wrapping."""
    try:
        yield
    except TransactionOver as over:
        raise errors.Stop(
            errors.TRANSACTION_LOST,
            f"{over.reason or over}; no reader will see its rows, so write them again (transactionSeconds is how long a"
            " transaction lives without renewal)",
        ) from over


def portions(payloads: list[Any]) -> Iterator[list[bytes]]:
    """Split payloads into requests of bounded rows and bytes."""
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
# The run of a stream's query; a restart is another run.
RUN_PROPERTY = "spark.jobGroup.id"
# What a person writes into a note whose transaction the service no longer remembers.
DONE = "done"


@dataclass
class StreamTaskStored(WriterCommitMessage):
    """The number of rows that one task stored, and their transaction; None without rows."""

    rows: int
    pointer: int | None


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes the column ``payload`` (binary or text) of a stream to one topic."""

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
            raise errors.Stop(errors.TASK_REPEATED, "Spark retried a task; start the query again")
        batch, run = context.getLocalProperty(BATCH_PROPERTY), context.getLocalProperty(RUN_PROPERTY)
        assert batch is not None and run is not None, "Spark sets these properties for every streaming task"
        return self.store(iterator, f"{batch}-{run}")

    def store(self, iterator: Iterator[pa.RecordBatch], attempt: str) -> StreamTaskStored:
        """Store the rows in the transaction of this attempt at a batch."""
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
        """Do nothing: Spark also calls this after a commit that succeeded but raised. Open transactions time out."""

    # --- inside

    def _transaction(self, client: BulkClient, attempt: str) -> int:
        """The transaction that all tasks of this attempt share; the first task begins it."""
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
        """Delete files of earlier batches, which Spark's own log marks as committed."""
        for path in self._folder.iterdir():
            number = path.name.partition("-")[0].removesuffix(".note")
            if number.isdigit() and int(number) < batch:
                path.unlink(missing_ok=True)


def _finished(client: BulkClient, note: Path, batch: int) -> bool:
    """Commit the noted transaction if possible; False if its rows will never be visible. Raises ``Stop``."""
    pointer = note.read_text().strip()
    if pointer == DONE:
        return True
    if not pointer.isdecimal():
        remedy = f"write {DONE} into it, or remove it"
        raise errors.Stop(errors.BATCH_UNKNOWN, f"{note} does not name a transaction; {remedy}")
    try:
        _commit(client, int(pointer))
    except TransactionOver as over:
        if over.state == "unknown":
            raise errors.Stop(
                errors.BATCH_UNKNOWN,
                f"batch {batch} was written in transaction {pointer}, which the service no longer remembers: check"
                f" whether its rows are in the topic; if they are, write {DONE} into {note}, otherwise remove it",
            ) from over
        return over.state == "committed"
    return True


def _commit(client: BulkClient, pointer: int) -> None:
    """Commit the transaction. Raises ``Wait`` if there is no answer; the next attempt finds the note and asks again."""
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
    """Write a file atomically and durably."""
    draft = path.with_name(f".{uuid.uuid4().hex}")
    draft.write_text(text)
    sync(draft)
    draft.replace(path)
    sync(path.parent)
