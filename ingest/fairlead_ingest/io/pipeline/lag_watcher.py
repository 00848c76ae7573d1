"""How far a table is behind its topics, asked now and then for people and alarms."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from fairlead_ingest.io import status
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.pipeline.query import RoundRobin
from fairlead_ingest.settings import Pipeline
from fairlead_ingest.source.offsets import Offsets
from fairlead_messaging.client.io.bulk_client import BulkClient

# Asking more often would be most of an idle job's requests.
LAG_SECONDS = 15.0
# Asked beside the work, no longer than this at a time: a service that is slow or silent would keep the other pipelines
# and a stop waiting, once for each topic.
ASK_SECONDS_MAX = 5.0


class LagWatcher:
    """Of one pipeline. Not thread-safe."""

    def __init__(self, pipeline: Pipeline, metrics: IngestMetrics, connect: Callable[[], BulkClient]) -> None:
        self._pipeline = pipeline.name
        self._metrics = metrics
        self._connect = connect
        self._topics = RoundRobin(pipeline.topics)
        self._asked: datetime.datetime | None = None

    def ask(self, reached: Offsets, now: datetime.datetime) -> None:
        """Measure how far ``reached`` is behind, at most every ``LAG_SECONDS``; ``now`` is aware.

        Topics for which there was no time come first the next time.
        """
        if self._asked is not None and (now - self._asked).total_seconds() < LAG_SECONDS:
            return
        self._asked = now
        for topic in self._topics.take(ASK_SECONDS_MAX):
            facts = status.of_topic(topic, reached.topics.get(topic), self._connect(), now)
            if facts.get("state") == "unreachable":
                break
            if "lag_messages" in facts:
                self._metrics.lag_rows.labels(self._pipeline, topic).set(facts["lag_messages"])
                self._metrics.lag_seconds.labels(self._pipeline, topic).set(facts["lag_seconds"])
