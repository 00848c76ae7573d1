"""Writing a DataFrame into a topic, all of it or nothing: the seed's long transaction.

    writer (driver) begins ─→ tasks store their rows under it ─→ commit: publish what was stored, commit
                                                                  abort: no reader ever sees a row

Tasks renew the transaction while they store, so a write may take hours, and nothing of it holds up a reader before the
commit. It lives ``transactionSeconds`` without them: before the first row, and from the last one to the commit.
Readers see the rows when the transaction is committed, in the order of the tasks' stores. A task that Spark tries again
would store its rows twice under the same transaction, so the whole write is given up instead; run it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from fairlead_ingest import errors
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
