"""Reading topics as a batch, for backfills: from a time until a time, topics and times taken from the query itself.

spark.read.format("fairlead").options(url=…, topics=…).load().where("_published_at >= '2026-11-01'")
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

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

from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.range_reader import ReadPartition, rows_of
from fairlead_ingest.io.topics.retry import ask
from fairlead_ingest.source import offset_ranges
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_ingest.source.pushdown import ReadScope
from fairlead_messaging.client.errors import TopicMissing

_RELATIONS: dict[type[Filter], str] = {
    EqualTo: "=",
    In: "in",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


# The program in which Spark hands conditions to a reader; it runs only where the session allows that.
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


def reader(options: SourceOptions) -> FairleadReader:
    """The reader for the session at hand: Spark refuses one that takes conditions where it may not give any."""
    return FilteringReader(options) if _PUSHING in sys.modules else FairleadReader(options)


class FairleadReader(DataSourceReader):
    """Everything stable at planning time that lies in scope; plans in the driver's process, reads in the tasks."""

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
    """The same, narrowed by the query's own conditions."""

    def pushFilters(self, filters_: list[Filter]) -> Iterable[Filter]:
        """Take what the service can answer; Spark checks all of them all the same."""
        for each in filters_:
            relation = _RELATIONS.get(type(each))
            if relation is not None:
                self._scope = self._scope.within((".".join(each.attribute), relation, each.value))  # type: ignore[attr-defined]
        return filters_
