"""How many files a table lies in, its size and its open dead letters, asked of the logs now and then.

Many small files are slow to read; an open letter waits for a person.
"""

from __future__ import annotations

import datetime

from deltalake.exceptions import DeltaError

from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.table.store_path import Place
from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs

log = logs.get("ingest.size")
# Asking reads the newest entries of the log; files come by the batch, so nothing is missed between.
SIZE_SECONDS = 60.0


class SizeWatcher:
    """Of one pipeline's table. Not thread-safe."""

    def __init__(self, pipeline: str, table_format: TableFormat, table: Place, metrics: IngestMetrics) -> None:
        self._pipeline = pipeline
        self._table_format = table_format
        self._table = table
        self._metrics = metrics
        self._asked: datetime.datetime | None = None

    def ask(self, now: datetime.datetime) -> None:
        """Count at most every ``SIZE_SECONDS``; ``now`` is aware. A table that cannot be read now is asked again."""
        if self._asked is not None and (now - self._asked).total_seconds() < SIZE_SECONDS:
            return
        self._asked = now
        try:
            found = self._table_format.size(self._table)
            open_letters, _ = tables.letter_counts(self._table_format, self._table)
        except (FairleadError, OSError, DeltaError) as error:
            log.debug("size_unknown", pipeline=self._pipeline, reason=str(error))
            return
        if found is not None:
            self._metrics.dead_letters_open.labels(self._pipeline).set(open_letters)
            self._metrics.table_files.labels(self._pipeline).set(found.files)
            self._metrics.table_bytes.labels(self._pipeline).set(found.bytes)
