"""Letters into rows without Spark: where the job has no schema file and no transforms, nothing of it is needed."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.io.sink.task_writer import NO_BATCH
from fairlead_ingest.rows import envelope
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.settings import Pipeline

Decode = Callable[[str, pa.Array, pa.Array, pa.Array], pa.RecordBatch]
"""From a page of one topic (ids, times, payloads) to rows with ``_error`` and ``_payload``."""


class LetterJudge(Protocol):
    """The job's own rules."""

    def __call__(self, letters: pa.Table) -> pa.Table:
        """``letters`` (``_topic``, ``_id``, ``_published_at``, ``payload``) as the sink would get them.

        Raises what the transforms raise, ``Stop``, ``Wait``.
        """


class PlainJudge:
    """Of one pipeline; see the module."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._decode: Decode = envelope.page if pipeline.format == "envelope" else envelope.raw_page

    def __call__(self, letters: pa.Table) -> pa.Table:
        rows = pages(letters, self._decode)
        now = pa.repeat(pa.scalar(datetime.datetime.now(datetime.UTC), TIMESTAMP), rows.num_rows)
        rows = rows.append_column("_ingested_at", now)
        return numbered(rows.append_column("_date", rows["_published_at"].cast(pa.date32())))


def needs_spark(pipeline: Pipeline) -> bool:
    """Columns of a schema file are read by Spark, and transforms are functions of it."""
    return bool(pipeline.schema_file or pipeline.transforms)


def pages(letters: pa.Table, decode: Decode) -> pa.Table:
    """As the job's source reads them: a page for each topic."""
    found = []
    for topic in pc.unique(letters["_topic"]).to_pylist():
        some = letters.filter(pc.equal(letters["_topic"], topic)).combine_chunks()
        ids = pa.array([bytes.fromhex(name) for name in some["_id"].to_pylist()], pa.binary())
        moments, payloads = some["_published_at"].combine_chunks(), some["payload"].combine_chunks()
        found.append(decode(topic, ids, moments, payloads))
    return pa.Table.from_batches(found)


def numbered(rows: pa.Table) -> pa.Table:
    """With the number of a batch that is of no stream, beside the day."""
    batch = pa.repeat(pa.scalar(NO_BATCH, pa.int64()), rows.num_rows)
    return rows.add_column(rows.column_names.index("_date"), "_batch", batch)
