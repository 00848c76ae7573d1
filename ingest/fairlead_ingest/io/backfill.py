"""Reading a stretch of time again into a table: what the table lacks is added, what it has stays once.

A backfill is a batch query of our own source, so it runs wherever Spark does, beside the streaming job or without it.
The job's positions are not touched. Rows are compared by (topic, message id), which are unique in a table.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from fairlead_ingest.io import sink, source, tables
from fairlead_ingest.io.job import shaped, source_options, table_schema
from fairlead_ingest.io.session import activate
from fairlead_ingest.io.tables import Kind
from fairlead_ingest.settings import Pipeline, Settings


def run(
    session: SparkSession,
    settings: Settings,
    pipeline: Pipeline,
    *,
    from_ms: int | None,
    until_ms: int | None,
    into: Path,
) -> dict[str, int]:
    """Add what ``into`` lacks of the pipeline's topics in that time; rows before and after. Raises ``Stop``."""
    options = source_options(session, settings, pipeline)
    for name, value in (("from", from_ms), ("until", until_ms)):
        if value is not None:
            options[name] = str(value)
    rows = session.read.format(source.FORMAT).options(**options).load()
    rows = shaped(rows, pipeline)
    name = pipeline.sink or settings.sink
    kind = tables.of(name)
    kind.ensure(into, table_schema(rows.schema))
    kind.ensure(tables.beside(into, tables.DEAD_LETTERS), tables.DEAD_LETTERS_SCHEMA)
    held = _held(session, kind, into, from_ms, until_ms)
    missing = rows.join(held, ["_topic", "_id"], "left_anti").select(*rows.columns)
    before = tables.count(kind, into)
    activate(session)
    missing.write.format(sink.format_of(name)).option("table", str(into)).mode("append").save()
    return {"rows_before": before, "rows_added": tables.count(kind, into) - before}


def _held(session: SparkSession, kind: Kind, into: Path, from_ms: int | None, until_ms: int | None) -> DataFrame:
    """The identities that are there already in that time, of rows and dead letters alike."""
    held = session.createDataFrame([], "_topic string, _id string")
    for path in (into, tables.beside(into, tables.DEAD_LETTERS)):
        identities = tables.identities(kind, path, from_ms, until_ms)
        if identities.num_rows:
            held = held.unionByName(session.createDataFrame(identities))
    return held
