"""Notices that no executor is left.

A standalone master that was started anew does not know the application: it has ended the executors, and the driver
would wait for others without an end.
"""

from __future__ import annotations

import datetime
from typing import Final

from pyspark.sql import SparkSession

from fairlead_ingest.io.spark import connect
from fairlead_ingest.io.spark.connect import SparkAway
from fairlead_ingest.io.spark.session import executors
from fairlead_ingest.spark_cluster import STANDALONE

# How often to check.
LOOK: Final = datetime.timedelta(seconds=10)
# A master that remembers applications has given others by then; one that has none to give is asked again.
GONE: Final = datetime.timedelta(seconds=60)
# The same before the first batch, where a cluster that others use has perhaps none that is free: who asks anew is the
# last in the master's queue.
GONE_AT_START: Final = datetime.timedelta(seconds=300)
_COME_AND_GO: Final = "spark.dynamicAllocation.enabled"


class ExecutorPresence:
    """Of one session on a standalone master. Not thread-safe."""

    def __init__(self, session: SparkSession, gone: datetime.timedelta = GONE) -> None:
        self._session = session
        self._gone = gone
        self._applies = (
            not connect.is_remote(session)
            and str(session.sparkContext.master).startswith(STANDALONE)
            and session.conf.get(_COME_AND_GO, "false") != "true"
        )
        self._next: datetime.datetime | None = None
        self._none_since: datetime.datetime | None = None

    def check(self, now: datetime.datetime) -> None:
        """Raises ``SparkAway`` where no executor has been there for so long."""
        if not self._applies or (self._next is not None and now < self._next):
            return
        self._next = now + LOOK
        if executors(self._session):
            self._none_since = None
        elif self._none_since is None:
            self._none_since = now
        elif now - self._none_since >= self._gone:
            raise SparkAway(
                f"no executor for {self._gone.seconds} s: Spark's master was started anew and does not know this"
                " application any more, or has no worker; it is asked for executors again"
            )
