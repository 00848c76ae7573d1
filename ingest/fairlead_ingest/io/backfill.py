"""Reading a stretch of time again into a table: what the table lacks is added, what it has stays once.

A backfill is a batch query of our own source, so it runs wherever Spark does, beside the streaming job or without it.
The job's positions are not touched. Rows are compared by (topic, message id), which are unique in a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from fairlead_ingest.io import sink, source, tables
from fairlead_ingest.io.job import shaped, source_options, table_schema, tls_of
from fairlead_ingest.io.session import activate
from fairlead_ingest.io.table_kind import Kind
from fairlead_ingest.settings import Pipeline, Settings
from fairlead_messaging.io.sync_client import BulkClient, TopicMissing

# Of a position's text, the publish time in milliseconds.
_TIME_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """From (inclusive) until (exclusive), in ms since 1970, None for open; about how many messages that is."""

    from_ms: int | None
    until_ms: int | None
    rows: int


def slices(client: BulkClient, pipeline: Pipeline, from_ms: int | None, until_ms: int | None, rows: int) -> list[Slice]:
    """The time cut into pieces of about ``rows`` messages a topic: each is committed by itself, so that progress can be
    shown and a stop loses little."""
    cuts: dict[int, int] = {}
    for topic in pipeline.topics:
        try:
            after = client.offsets(topic, "earliest" if from_ms is None else max(0, from_ms)).position or ""
            upto = client.offsets(topic, "latest").stable or ""
            if until_ms is not None:
                upto = min(upto, client.offsets(topic, max(0, until_ms)).position or "")
            while after < upto:
                plan = client.plan(topic, after=after, upto=upto, limit_rows=rows)
                if not plan.rows or plan.upto is None:
                    break
                after = plan.upto
                # Positions begin with the time, so that a cut just after this message's is one for all topics.
                cut = int(after[:_TIME_DIGITS], 16) + 1
                cuts[cut] = cuts.get(cut, 0) + plan.rows
        except TopicMissing:
            continue
    found, begin = [], from_ms
    for cut, counted in sorted(cuts.items()):
        end = cut if until_ms is None else min(cut, until_ms)
        found.append(Slice(from_ms=begin, until_ms=end, rows=counted))
        begin = end
    return found


def run(
    session: SparkSession,
    settings: Settings,
    pipeline: Pipeline,
    *,
    from_ms: int | None,
    until_ms: int | None,
    into: Path,
    total: Callable[[int], None] = lambda _: None,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, int]:
    """Add what ``into`` lacks of the pipeline's topics in that time; rows before and after. Raises ``Stop``.

    ``total`` is told how many messages will be looked at, ``progress`` how many more were.
    """
    options = source_options(session, settings, pipeline)
    name = pipeline.sink or settings.sink
    kind = tables.of(name)
    rows = shaped(session.read.format(source.FORMAT).options(**options).load(), pipeline)
    kind.ensure(into, table_schema(rows.schema))
    kind.ensure(tables.beside(into, tables.DEAD_LETTERS), tables.DEAD_LETTERS_SCHEMA)
    before = tables.count(kind, into)
    with BulkClient(settings.messaging_url, tls=tls_of(settings), timeout_seconds=settings.request_seconds) as client:
        pieces = slices(client, pipeline, from_ms, until_ms, settings.limits.batch_rows)
    total(sum(piece.rows for piece in pieces))
    for piece in pieces:
        bounds = {"from": piece.from_ms, "until": piece.until_ms}
        given = {key: str(value) for key, value in bounds.items() if value is not None}
        rows = shaped(session.read.format(source.FORMAT).options(**options, **given).load(), pipeline)
        held = _held(session, kind, into, piece.from_ms, piece.until_ms)
        missing = rows.join(held, ["_topic", "_id"], "left_anti").select(*rows.columns)
        activate(session)
        missing.write.format(sink.format_of(name)).option("table", str(into)).mode("append").save()
        progress(piece.rows)
    return {"rows_before": before, "rows_added": tables.count(kind, into) - before}


def _held(session: SparkSession, kind: Kind, into: Path, from_ms: int | None, until_ms: int | None) -> DataFrame:
    """The identities that are there already in that time, of rows and dead letters alike."""
    held = session.createDataFrame([], "_topic string, _id string")
    for path in (into, tables.beside(into, tables.DEAD_LETTERS)):
        identities = tables.identities(kind, path, from_ms, until_ms)
        if identities.num_rows:
            held = held.unionByName(session.createDataFrame(identities))
    return held
