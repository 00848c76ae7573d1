"""Reads a time range again and adds the rows that a table lacks.

A backfill is a batch query of our own source, so it runs wherever Spark does, with or without the streaming job. It
does not change the job's positions and reads no further than they go; later messages are left to the job. Rows are
compared by (topic, message id), which is unique in a table: first here, to avoid writing existing rows again, and once
more at each commit (``batch_commit.append_backfill``), because others may write to the table meanwhile.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from fairlead_ingest.io.checkpoint import checkpoint_mirror, spark_checkpoint
from fairlead_ingest.io.pipeline.query import shaped, source_options, table_schema
from fairlead_ingest.io.service_tls import tls_of
from fairlead_ingest.io.sink import batch_commit, spark_sink
from fairlead_ingest.io.spark.session import activate
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.io.topics import spark_source
from fairlead_ingest.rows.transforms import quoted
from fairlead_ingest.settings import IngestSettings, Pipeline
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import commit
from fairlead_ingest.table.store_path import Place, place
from fairlead_messaging.client.errors import TopicMissing
from fairlead_messaging.client.io.sync_client import BulkClient

# Number of leading hex digits of a position that are the publish time in milliseconds.
_TIME_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """A range of publish times in ms since 1970, ``until_ms`` exclusive, None if open; ``rows`` is an estimate."""

    from_ms: int | None
    until_ms: int | None
    rows: int


def reserved(
    client: BulkClient, table_format: TableFormat, into: Place, pipeline: Pipeline, checkpoint: Place
) -> dict[str, str]:
    """By topic, the position after which messages belong to a job that will read them; other topics are free.

    The positions come from the table's log, or from the pipeline's checkpoint if the log has no entry yet.
    """
    state = table_format.state(into, batch_commit.BACKFILL_APPLICATION)
    held = {topic: state.reached.topics[topic] for topic in commit.left_to_job(state)}
    if str(into) == str(place(pipeline.table)):
        held = {**_begun(checkpoint).topics, **held}
    bounds = {}
    for topic in pipeline.topics:
        offset = held.get(topic)
        if offset is None:
            continue
        try:
            generation = client.offsets(topic, "earliest").generation
        except TopicMissing:
            continue
        # No message of a recreated topic has been read, so all of them belong to the job.
        bounds[topic] = offset.position if offset.generation in (0, generation) else ""
    return bounds


def _begun(checkpoint: Place) -> Offsets:
    """The beginning of the oldest batch in the checkpoint."""
    if isinstance(checkpoint, Path):
        return spark_checkpoint.begun(checkpoint)
    page = checkpoint_mirror.page_of(checkpoint)
    if page is None:
        return Offsets()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint_mirror.write_texts(page, Path(folder))
        return spark_checkpoint.begun(Path(folder))


def time_ranges(
    client: BulkClient,
    pipeline: Pipeline,
    from_ms: int | None,
    until_ms: int | None,
    rows: int,
    up_to: Mapping[str, str] | None = None,
) -> list[TimeRange]:
    """Split the time into ranges of about ``rows`` messages per topic. Each is committed separately, to show progress
    and to lose little when stopped."""
    cuts: dict[int, int] = {}
    for topic in pipeline.topics:
        try:
            after = client.offsets(topic, "earliest" if from_ms is None else max(0, from_ms)).position or ""
            upto = client.offsets(topic, "latest").stable or ""
            upto = min(upto, (up_to or {}).get(topic, upto))
            if until_ms is not None:
                upto = min(upto, client.offsets(topic, max(0, until_ms)).position or "")
            while after < upto:
                plan = client.plan(topic, after=after, upto=upto, limit_rows=rows)
                if not plan.rows or plan.upto is None:
                    break
                after = plan.upto
                # Positions begin with the time, so a cut just after this message applies to all topics.
                cut = int(after[:_TIME_DIGITS], 16) + 1
                cuts[cut] = cuts.get(cut, 0) + plan.rows
        except TopicMissing:
            continue
    found, begin = [], from_ms
    for cut, counted in sorted(cuts.items()):
        end = cut if until_ms is None else min(cut, until_ms)
        found.append(TimeRange(from_ms=begin, until_ms=end, rows=counted))
        begin = end
    return found


def run(
    session: SparkSession,
    settings: IngestSettings,
    pipeline: Pipeline,
    *,
    from_ms: int | None,
    until_ms: int | None,
    into: Place,
    total: Callable[[int], None] = lambda _: None,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, int]:
    """Add the messages of that time that ``into`` lacks; return the rows before and added. Raises ``Stop``.

    ``total`` is called with the number of messages to read, ``progress`` with the number read since its last call.
    """
    options = source_options(session, settings, pipeline)
    name = pipeline.table_format or settings.table_format
    table_format = tables.of_pipeline(settings, pipeline)
    place = spark_sink.place_options(into, settings.catalog_of(name))
    rows = shaped(session.read.format(spark_source.FORMAT).options(**options).load(), settings, pipeline)
    table_format.ensure(into, table_schema(rows.schema))
    table_format.ensure(tables.beside(into, tables.DEAD_LETTERS), tables.DEAD_LETTERS_SCHEMA)
    before = tables.count(table_format, into)
    with BulkClient(settings.messaging_url, tls=tls_of(settings), timeout_seconds=settings.request_seconds) as client:
        bounds = reserved(client, table_format, into, pipeline, settings.place(pipeline.checkpoint))
        spans = time_ranges(client, pipeline, from_ms, until_ms, settings.limits.batch_rows, bounds)
    options["upTo"] = json.dumps(bounds)
    total(sum(span.rows for span in spans))
    for span in spans:
        bounds_ms = {"from": span.from_ms, "until": span.until_ms}
        given = {key: str(value) for key, value in bounds_ms.items() if value is not None}
        rows = shaped(session.read.format(spark_source.FORMAT).options(**options, **given).load(), settings, pipeline)
        held = _held(session, table_format, into, span.from_ms, span.until_ms)
        missing = rows.join(held, ["_topic", "_id"], "left_anti").select(*map(quoted, rows.columns))
        activate(session)
        missing.write.format(spark_sink.format_of(name)).options(**place).mode("append").save()
        progress(span.rows)
    return {"rows_before": before, "rows_added": tables.count(table_format, into) - before}


def _held(
    session: SparkSession, table_format: TableFormat, into: Place, from_ms: int | None, until_ms: int | None
) -> DataFrame:
    """The identities of existing rows and dead letters in that time."""
    held = session.createDataFrame([], "_topic string, _id string")
    for path in (into, tables.beside(into, tables.DEAD_LETTERS)):
        # Combined: Spark takes an empty chunk, of a file without matches, for the end of the data.
        identities = tables.identities(table_format, path, from_ms, until_ms).combine_chunks()
        if identities.num_rows:
            held = held.unionByName(session.createDataFrame(identities))
    return held
