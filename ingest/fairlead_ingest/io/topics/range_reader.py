"""Reads offset ranges in a task page by page, fetching and decoding the next page while one is processed.

``FairleadReader`` reads topics as a batch, for backfills; it uses the query's conditions on topic and time:

    spark.read.format("fairlead").options(url=…, topics=…).load().where("_published_at >= '2026-11-01'")
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from fairlead_ingest import errors
from fairlead_ingest.io import worker_memory
from fairlead_ingest.io.checkpoint import batch_notes
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.retry import ask
from fairlead_ingest.source import gaps, offset_ranges
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_ingest.source.pushdown import ReadScope
from fairlead_messaging.client.errors import Expired, GenerationChanged, TopicMissing
from fairlead_messaging.client.io.sync_client import BulkClient
from fairlead_messaging.client.request import ArrowPage

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class ReadPartition(InputPartition):
    """What one task reads: offset ranges, one after the other."""

    ranges: tuple[OffsetRange, ...]
    # The folder for notes about messages that could not be read; "" for no notes.
    notes: str = ""

    @property
    def rows(self) -> int:
        """The planned number of rows."""
        return sum(each.rows for each in self.ranges)


def rows_of(partition: ReadPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a partition in the format of the options. Raises ``Stop``, ``Wait``.

    Reads one page ahead: Spark asks for the next page only when it has processed the previous one, and the core would
    be idle while the service answers.
    """
    yield from one_ahead(_rows_of(partition, options))
    worker_memory.settle()


def one_ahead(elements: Iterator[T]) -> Iterator[T]:
    """The same elements (none may be None), produced one ahead by a thread; its errors are raised in their place."""
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
    """The pages of one range in order; missing messages are noted in ``notes``. Raises ``Stop``, ``Wait``."""
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
        batch_notes.note_unread(Path(notes), wanted.topic, wanted.after, rolled_back, recreated=gone)


def go_on(topic: str, after: str, error: Expired, options: SourceOptions) -> str:
    """The position to continue from after messages expired, by the policy ``on_expired``. Raises ``Stop``."""
    if error.oldest <= after:
        raise error
    gaps.expired(topic, after, error.oldest, error.rows, options.on_expired)
    return error.oldest


def recreated_in_batch(topic: str, generation: int, error: Exception, options: SourceOptions) -> None:
    """Raise ``Stop``, unless the policy allows losing a batch planned for a generation that no longer exists."""
    if options.on_recreated == "fail":
        raise errors.Stop(
            errors.RECREATED,
            f"{topic}: a batch was planned for generation {generation}, which no longer exists ({error}); its rows"
            ' cannot be read. Set on_recreated = "restart" to continue without them; they will leave a gap row',
        ) from error


_RELATIONS: dict[type[Filter], str] = {
    EqualTo: "=",
    In: "in",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


# The module of the process in which Spark passes filters to a reader; it runs only if the session allows that.
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


def batch_reader(options: SourceOptions) -> FairleadReader:
    """The reader for this session; Spark refuses one that accepts filters if filter pushdown is disabled."""
    return FilteringReader(options) if _PUSHING in sys.modules else FairleadReader(options)


class FairleadReader(DataSourceReader):
    """Reads all stable messages in scope; plans in the driver's process and reads in the tasks."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._scope = ReadScope(from_ms=options.from_ms, until_ms=options.until_ms)

    def partitions(self) -> Sequence[InputPartition]:
        if self._options.ranges is not None:
            return [ReadPartition(ranges=(each,)) for each in self._options.ranges]
        scope, found = self._scope, list[OffsetRange]()
        topics = [topic for topic in self._options.topics if scope.topics is None or topic in scope.topics]
        with self._options.client() as client:
            for topic in topics:
                try:
                    begin = ask(client.offsets, topic, "earliest" if scope.from_ms is None else max(0, scope.from_ms))
                    stable = ask(client.offsets, topic, "latest").stable or ""
                    upto = stable
                    if scope.until_ms is not None:
                        upto = min(stable, ask(client.offsets, topic, max(0, scope.until_ms)).position or "")
                    upto = min(upto, self._options.up_to.get(topic, upto))
                    after = begin.position or ""
                    if after >= upto:
                        continue
                    plan = ask(
                        client.plan,
                        topic,
                        after=after,
                        upto=upto,
                        splits=self._options.splits,
                        generation=begin.generation,
                    )
                except TopicMissing:
                    continue
                found += offset_ranges.merged(topic, plan.generation, plan.ranges, self._options.split_bytes)
        groups = offset_ranges.grouped(found, self._options.splits, self._options.split_bytes)
        return [ReadPartition(ranges=group) for group in groups] or [ReadPartition(ranges=())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReadPartition)
        yield from rows_of(partition, self._options)


class FilteringReader(FairleadReader):
    """The same, narrowed by the query's own filters."""

    def pushFilters(self, filters_: list[Filter]) -> Iterable[Filter]:
        """Use the filters that the service supports; all are returned, so that Spark also applies them."""
        for each in filters_:
            relation = _RELATIONS.get(type(each))
            if relation is not None:
                self._scope = self._scope.within((".".join(each.attribute), relation, each.value))  # type: ignore[attr-defined]
        return filters_
