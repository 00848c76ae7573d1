"""Notices that more executors came than a query counts on.

Into how many tasks a batch is cut is fixed at the start of its query, and a cluster's executors come one after the
other; a worker that was away comes back. Fewer than before need nothing: each then works off several tasks.
"""

from __future__ import annotations

import datetime
from typing import Final

from pyspark.sql import SparkSession

from fairlead_ingest.io.spark import connect
from fairlead_ingest.io.spark.session import is_local, parallelism

# How often to check; more executors must be there at two checks in a row, since one is often followed by others.
LOOK: Final = datetime.timedelta(seconds=10)


class ExecutorWatcher:
    """Of one query. Of a Connect server it knows only what there was at the start. Not thread-safe."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._counts_on = 0
        self._seen = 0
        self._next: datetime.datetime | None = None

    def start(self, tasks: int) -> None:
        """The query that starts now cuts its batches into so many."""
        self._counts_on = self._seen = tasks
        self._next = None

    def have_come(self, now: datetime.datetime) -> int:
        """How many tasks could run at once since the query would have to start again for it; 0 where it need not."""
        if self._next is None:
            self._next = now + LOOK
        if now < self._next or connect.is_remote(self._session) or is_local(self._session):
            return 0
        self._next = now + LOOK
        before, self._seen = self._seen, parallelism(self._session)
        return self._seen if before == self._seen > self._counts_on else 0
