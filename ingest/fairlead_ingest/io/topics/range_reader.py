"""Reading offset ranges in a task: page by page, the next one fetched and decoded while one is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from fairlead_ingest import errors
from fairlead_ingest.io import worker_memory
from fairlead_ingest.io.checkpoint import unread_notes
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.retry import ask
from fairlead_ingest.source import gaps
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_messaging.client.arrow_page import ArrowPage
from fairlead_messaging.client.errors import Expired, GenerationChanged, TopicMissing
from fairlead_messaging.client.io.bulk_client import BulkClient

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class ReadPartition(InputPartition):
    """What one task reads: offset ranges, one after the other."""

    ranges: tuple[OffsetRange, ...]
    # Where to note how many of their messages were rolled back; "" where that is not needed.
    notes: str = ""

    @property
    def rows(self) -> int:
        """Rows promised."""
        return sum(each.rows for each in self.ranges)


def rows_of(partition: ReadPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a partition in the options' format. Raises ``Stop`` or ``Wait`` by code.

    Spark takes the next page only when the one before has passed all of its work; a task that began to ask then would
    leave its core idle while the service answers.
    """
    yield from one_ahead(_rows_of(partition, options))
    worker_memory.settle()


def one_ahead(elements: Iterator[T]) -> Iterator[T]:
    """The same elements, none of them None, made by a thread that is one ahead; what it raises comes in its place."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead") as thread:
        coming = thread.submit(next, elements, None)
        while (element := coming.result()) is not None:
            coming = thread.submit(next, elements, None)
            yield element


def _rows_of(partition: ReadPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    decode = options.decoder()
    with options.client() as client:
        for each in partition.ranges:
            for table in fetch(client, each, options, partition.notes):
                for batch in table.combine_chunks().to_batches():
                    yield decode(each.topic, batch["id"], batch["ts"], batch["payload"])


def fetch(client: BulkClient, wanted: OffsetRange, options: SourceOptions, notes: str = "") -> Iterator[pa.Table]:
    """The pages of one range, in order; what is missing is noted in ``notes``. Raises ``Stop`` or ``Wait`` by code."""
    after, rolled_back, gone = wanted.after, 0, False
    while after < wanted.upto:
        try:
            page: ArrowPage = ask(
                client.poll,
                wanted.topic,
                after=after,
                upto=wanted.upto,
                limit_rows=options.page_rows,
                limit_bytes=options.page_bytes,
                generation=wanted.generation or None,
            )
        except Expired as error:
            after = go_on(wanted.topic, after, error, options)
            continue
        except (GenerationChanged, TopicMissing) as error:
            recreated_in_batch(wanted.topic, wanted.generation, error, options)
            gone = True
            break
        rolled_back += page.hidden
        if page.table.num_rows:
            yield page.table
        if page.next_position <= after:
            break
        after = page.next_position
    if (rolled_back or gone) and notes:
        unread_notes.note(Path(notes), wanted.topic, wanted.after, rolled_back, recreated=gone)


def go_on(topic: str, after: str, error: Expired, options: SourceOptions) -> str:
    """Where reading goes on after a start has expired, by the policy for it; never further back. Raises ``Stop``."""
    if error.oldest <= after:
        raise error
    gaps.expired(topic, after, error.oldest, error.rows, options.on_expired)
    return error.oldest


def recreated_in_batch(topic: str, generation: int, error: Exception, options: SourceOptions) -> None:
    """What was planned over a generation that is gone can never be read. Raises ``Stop`` unless that is all right."""
    if options.on_recreated == "fail":
        raise errors.Stop(
            errors.RECREATED,
            f"{topic}: a batch was planned over generation {generation}, which is gone ({error}); its rows cannot be"
            ' read any more. Set on_recreated = "restart" to go on without them, they leave a gap row',
        ) from error
