"""Fetching one stretch of a topic in a task: page by page, the next one fetched and decoded while one is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from fairlead_ingest import errors, loss
from fairlead_ingest.io import hidden
from fairlead_ingest.io.options import Options
from fairlead_messaging.io.sync_client import BulkClient, Expired, GenerationChanged, Page, TopicMissing
from fairlead_wire.errors import Temporary

T = TypeVar("T")


@dataclass(frozen=True)
class Stretch(InputPartition):
    """What one task reads: ``topic`` of ``generation`` after ``after`` (exclusive) up to ``upto`` (inclusive)."""

    topic: str
    generation: int
    after: str
    upto: str
    rows: int
    # Where to note how many of its messages were rolled back; "": nobody asks.
    notes: str = ""


def rows_of(stretch: Stretch, options: Options) -> Iterator[pa.RecordBatch]:
    """The rows of a stretch in the options' format. Raises ``Stop`` or ``Wait`` by code.

    Spark takes the next page only when the one before has passed all of its work; a task that began to ask then would
    leave its core idle while the service answers.
    """
    return one_ahead(_rows_of(stretch, options))


def one_ahead(elements: Iterator[T]) -> Iterator[T]:
    """The same elements, none of them None, made by a thread that is one ahead; what it raises comes in its place."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead") as thread:
        coming = thread.submit(next, elements, None)
        while (element := coming.result()) is not None:
            coming = thread.submit(next, elements, None)
            yield element


def _rows_of(stretch: Stretch, options: Options) -> Iterator[pa.RecordBatch]:
    decode = options.decoder()
    with options.client() as client:
        for table in fetch(client, stretch, options):
            for batch in table.combine_chunks().to_batches():
                yield decode(stretch.topic, batch["id"], batch["ts"], batch["payload"])


@contextmanager
def reachable() -> Iterator[None]:
    """Turns 'try again later' of the client into a coded reason that survives Spark's wrapping."""
    try:
        yield
    except Temporary as error:
        raise errors.Wait(errors.UNREACHABLE, str(error)) from error


def fetch(client: BulkClient, stretch: Stretch, options: Options) -> Iterator[pa.Table]:
    """The pages of one stretch, in order. Raises ``Stop`` or ``Wait`` by code."""
    after, rolled_back, gone = stretch.after, 0, False
    while after < stretch.upto:
        try:
            with reachable():
                page: Page = client.poll(
                    stretch.topic,
                    after=after,
                    upto=stretch.upto,
                    limit_rows=options.page_rows,
                    limit_bytes=options.page_bytes,
                    generation=stretch.generation or None,
                )
        except Expired as error:
            after = go_on(stretch.topic, after, error, options)
            continue
        except (GenerationChanged, TopicMissing) as error:
            recreated_in_batch(stretch.topic, stretch.generation, error, options)
            gone = True
            break
        rolled_back += page.hidden
        if page.table.num_rows:
            yield page.table
        if page.next_position <= after:
            break
        after = page.next_position
    if (rolled_back or gone) and stretch.notes:
        hidden.note(Path(stretch.notes), stretch.topic, stretch.after, rolled_back, recreated=gone)


def go_on(topic: str, after: str, error: Expired, options: Options) -> str:
    """Where reading goes on after a start has expired, by the policy for it. Raises ``Stop``."""
    if not after:
        raise error
    loss.expired(topic, after, error.oldest, error.rows, options.on_expired)
    return ""


def recreated_in_batch(topic: str, generation: int, error: Exception, options: Options) -> None:
    """What was planned over a generation that is gone can never be read. Raises ``Stop`` unless that is all right."""
    if options.on_recreated == "fail":
        raise errors.Stop(
            errors.RECREATED,
            f"{topic}: a batch was planned over generation {generation}, which is gone ({error}); its rows cannot be"
            ' read any more. Set on_recreated = "restart" to go on without them, they leave a gap row',
        ) from error
