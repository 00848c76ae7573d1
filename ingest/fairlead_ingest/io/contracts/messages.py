"""Committed messages of a topic, the newest or since a time: read once, in order, leaving no reader's position."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.range_reader import fetch, one_ahead
from fairlead_ingest.io.topics.retry import ask
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_messaging.client.errors import Expired
from fairlead_messaging.client.io.sync_client import BulkClient

SPLITS = 64
# A stretch as short as this is read as it is, and what lies before the wanted messages is passed over.
READ_ROWS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """``rows``: about how many messages there are to read, of them ``skip`` at the beginning to pass over."""

    wanted: OffsetRange
    skip: int = 0

    @property
    def rows(self) -> int:
        return max(0, self.wanted.rows - self.skip)


def stretch(client: BulkClient, topic: str, *, last: int | None = None, since_ms: int | None = None) -> Stretch:
    """The newest ``last`` messages, those since a time, or both: no more than ``last`` of those.

    Raises ``Wait``, and what the client raises, as ``TopicMissing``.
    """
    begin = ask(client.offsets, topic, "earliest" if since_ms is None else max(0, since_ms))
    end = ask(client.offsets, topic, "latest").stable or ""
    after = begin.position or ""
    if after >= end:
        return Stretch(wanted=OffsetRange(topic=topic, generation=begin.generation, after=after, upto=after, rows=0))
    while True:
        try:
            plan = ask(client.plan, topic, after=after, upto=end, splits=SPLITS, generation=begin.generation)
        except Expired as gone:
            after = gone.oldest  # it expired while we looked
            continue
        found = OffsetRange(topic=topic, generation=begin.generation, after=after, upto=end, rows=plan.rows)
        if last is None or plan.rows <= last:
            return Stretch(wanted=found)
        counted, closer = 0, after
        for part in reversed(plan.ranges):
            counted, closer = counted + part.rows, part.after
            if counted >= last:
                break
        if closer <= after or plan.rows <= READ_ROWS:
            return Stretch(wanted=found, skip=plan.rows - last)
        after = closer


def pages(client: BulkClient, found: Stretch) -> Iterator[pa.RecordBatch]:
    """Its messages: ``id``, ``ts``, ``payload``. Raises as ``stretch`` does."""
    topic = found.wanted.topic
    options = SourceOptions.of(
        {"url": client.base_url, "topics": json.dumps([topic]), "onExpired": "count", "onRecreated": "restart"}
    )
    skip = found.skip
    for table in one_ahead(fetch(client, found.wanted, options)):
        rows = table.slice(min(skip, table.num_rows))
        skip -= table.num_rows - rows.num_rows
        yield from rows.combine_chunks().to_batches()
