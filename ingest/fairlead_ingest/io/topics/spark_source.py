"""The Spark source ``fairlead``: reads topics of the messaging service as a stream, up to the stable position.

    per batch   latestOffset (plan, may wait) → offsets into the checkpoint → partitions (plan, split) → read (poll)
    restart     partitions with the logged offsets; latestOffset is not called for the repeated batch

So losses and new generations are checked in all three places. The reader object lives in a Python process of the driver
and is pickled for every task, so it holds options but no connection. Each task has one client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from fairlead_ingest import errors
from fairlead_ingest.io.checkpoint import batch_notes
from fairlead_ingest.io.topics.batch_planner import BatchPlanner
from fairlead_ingest.io.topics.options import SourceOptions, spark_schema
from fairlead_ingest.io.topics.range_reader import (
    FairleadReader,
    ReadPartition,
    batch_reader,
    go_on,
    recreated_in_batch,
    rows_of,
)
from fairlead_ingest.io.topics.retry import ask
from fairlead_ingest.io.topics.topic_writer import TopicStreamWriter, TopicWriter
from fairlead_ingest.source import gaps, offset_ranges, offsets
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_messaging.api.responses import Plan
from fairlead_messaging.client.errors import Expired, GenerationChanged, TopicMissing
from fairlead_messaging.client.io.sync_client import BulkClient

FORMAT = "fairlead"


class FairleadDataSource(DataSource):
    """``spark.readStream.format("fairlead").options(url=…, topics="ns/a,ns/b")``; all options in ``options``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(SourceOptions.of(self.options).page_schema)

    def reader(self, schema: StructType) -> FairleadReader:
        return batch_reader(SourceOptions.of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        if overwrite:
            raise errors.Stop(errors.BAD_OPTION, 'mode: only "append" is allowed; a topic is never overwritten')
        return TopicWriter(SourceOptions.of(self.options), schema.names)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamWriter:
        checkpoint = self.options.get("checkpoint")
        if not checkpoint:
            raise errors.Stop(errors.BAD_OPTION, "checkpoint is required; set it to the query's checkpointLocation")
        return TopicStreamWriter(SourceOptions.of(self.options), schema.names, Path(checkpoint))

    def streamReader(self, schema: StructType) -> FairleadStreamReader:
        return FairleadStreamReader(SourceOptions.of(self.options))


class FairleadStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver's process and reads offset ranges in the tasks'."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._targets: dict[str, str] | None = None
        self._client: BulkClient | None = None
        self._planner: BatchPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_targets": None, "_client": None, "_planner": None}

    # --- planning, beside the driver

    def initialOffset(self) -> dict[str, Any]:
        service, topics = "", {}
        for topic in self._options.topics:
            start = self._options.start_of(topic)
            if isinstance(start, Mapping):
                topics[topic] = TopicOffset.from_starting(start)
                continue
            try:
                found = ask(self._ask().offsets, topic, start)
            except TopicMissing:
                topics[topic] = TopicOffset()
                continue
            service = gaps.same_service(service, found.service)
            place = "" if start == "earliest" else found.stable if start == "latest" else found.position
            topics[topic] = TopicOffset.at(found.generation, place or "", found.passed if place else 0)
        return Offsets(service=service, topics=topics).to_dict()

    def prepareForTriggerAvailableNow(self) -> None:
        self._targets, self._planner = {}, None
        for topic in self._options.topics:
            try:
                self._targets[topic] = ask(self._ask().offsets, topic, "latest").stable or ""
            except TopicMissing:
                self._targets[topic] = ""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_rows_per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        known = offsets.parse_offsets(start)
        everything = isinstance(limit, ReadAllAvailable)
        limit_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        limit_bytes = None if everything else self._options.max_bytes_per_batch
        if self._planner is None:
            self._planner = BatchPlanner(self._options, self._ask(), self._targets)
        reached = self._planner.next(known, limit_rows, limit_bytes)
        return start if reached is None else reached.to_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        goal = offsets.parse_offsets(end)
        found: list[OffsetRange] = []
        checkpoint = self._options.checkpoint
        notes = str(batch_notes.prepare_notes(Path(checkpoint), goal)) if checkpoint else ""
        for topic, offset in goal.topics.items():
            after = offset.read_from
            if offset.position <= after:
                continue
            plan = self._plan_again(topic, offset, after)
            if plan is None:
                if notes:
                    batch_notes.note_unread(Path(notes), topic, after, recreated=True)
                continue
            gaps.same_service(goal.service, plan.service)
            found += offset_ranges.merged(topic, offset.generation, plan.ranges, self._options.split_bytes)
        groups = offset_ranges.grouped(found, self._options.splits, self._options.split_bytes)
        return [ReadPartition(ranges=group, notes=notes) for group in groups]

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()

    # --- reading, in the tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReadPartition)
        yield from rows_of(partition, self._options)

    # --- inside

    def _ask(self) -> BulkClient:
        if self._client is None:
            self._client = self._options.client()
        return self._client

    def _plan_again(self, topic: str, offset: TopicOffset, after: str) -> Plan | None:
        """Plan a logged range again, applying the policies for expired messages; None if its topic is gone."""
        planned = None if self._planner is None else self._planner.plan_of(topic, offset)
        if planned is not None:
            return planned
        while True:
            try:
                return ask(
                    self._ask().plan,
                    topic,
                    after=after,
                    upto=offset.position,
                    splits=self._options.splits,
                    generation=offset.generation or None,
                )
            except Expired as error:
                after = go_on(topic, after, error, self._options)
            except (GenerationChanged, TopicMissing) as error:
                recreated_in_batch(topic, offset.generation, error, self._options)
                return None
