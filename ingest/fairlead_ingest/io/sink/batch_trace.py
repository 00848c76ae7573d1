"""Records the span of a batch: tasks collect the traces of its messages, the driver adds one span to each of them.

    write (each task)   column ``properties`` ─▶ at most 32 sampled ``traceparent`` in ``Written.traces``
    commit (driver)     "ingest batch", from the start of the first task to the rows' commit

The driver's side of a sink is a separate process, which Spark may end at any moment. So the exporter is opened here,
with the first batch that needs it, and flushed at the end of each commit.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from fairlead_ingest.io.sink.task_writer import Written
from fairlead_wire import distribution
from fairlead_wire.io import logs, spans
from fairlead_wire.io.spans import Spans
from fairlead_wire.traces import span_names, trace
from fairlead_wire.traces.model import TracesModel

ROOM = "ingest"
_log = logs.get("ingest.traces")


def option(settings: TracesModel) -> str:
    """The settings as an option of the sink; "" if no spans are recorded."""
    return settings.model_dump_json() if spans.endpoint_of(settings, os.environ) else ""


@contextlib.contextmanager
def recording(settings: str, written: Sequence[Written], table: str, batch: int) -> Iterator[None]:
    """Record a span around the commit of a batch. Never raises by itself, as rows matter more than traces."""
    traces = [each for message in written for each in message.traces]
    opened = _opened(settings) if settings and traces else None
    if opened is None:
        yield
        return
    rows = sum(file.rows for message in written for file in message.rows)
    dead = sum(file.rows for message in written for file in message.dead)
    named: dict[str, str | int] = {
        **span_names.of_messages(rows + dead, operation="process"),
        span_names.TABLE: table,
        span_names.BATCH: batch,
        span_names.ROWS: rows,
        span_names.DEAD_LETTERS: dead,
    }
    began = min((message.began_ns for message in written if message.began_ns), default=time.time_ns())
    hop = opened.hop(
        span_names.INGEST_BATCH,
        _parsed(text for text, _ in traces),
        kind="consumer",
        late=set(_parsed(text for text, is_late in traces if is_late)),
        start_ns=began,
        attributes=named,
    )
    try:
        with spans.recording(hop):
            yield
    finally:
        opened.flush()


def _parsed(texts: Iterable[str]) -> list[trace.Trace]:
    return [found for text in texts if (found := trace.sampled(text)) is not None]


@cache
def _opened(settings: str) -> Spans | None:
    """Open the exporter, once for each process."""
    logs.configure(ROOM)
    try:
        model = TracesModel.model_validate_json(settings)
        return spans.open_spans(model, room=ROOM, version=distribution.version(), environ=os.environ)
    except (spans.CannotTrace, ValueError) as error:
        _log.warning("traces_off", reason=str(error))
        return None
