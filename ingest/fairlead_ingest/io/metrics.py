"""The job's Prometheus metrics. Counters are taken from the table's own commits, so they match its contents."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily

from fairlead_ingest.table import commit_info
from fairlead_ingest.table.commit_info import BatchCounts

PREFIX = "fairlead_ingest_"


class IngestMetrics:
    """All metrics of one job, labelled by pipeline."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.rows = self._counter("rows", "Rows committed to the table")
        self.dead_letters = self._counter("dead_letters", "Messages committed to the dead letters")
        self.expired_unread = self._counter("expired_unread", "Messages that expired before they were read")
        self.filtered = self._counter("filtered", "Messages that transforms or deduplication removed")
        self.expired_starts = self._counter(
            "expired_starts", "Times reading had to continue at the oldest remaining message"
        )
        self.gaps = self._counter("gaps", "Ranges of topics that were never read; each is a row of the gaps table")
        self.bytes = self._counter("bytes", "Bytes of Parquet committed")
        self.batches = self._counter("batches", "Batches committed")
        self.failures = self._counter("failures", "Queries that failed and were restarted")
        self.stopped = self._gauge("stopped", "1 if the pipeline stopped and needs attention, otherwise 0")
        self.lag_rows = self._gauge(
            "lag_rows", "Messages that are stable in the topic but not in the table yet", "topic"
        )
        self.lag_seconds = self._gauge("lag_seconds", "Age of the oldest message that is not in the table yet", "topic")
        self.last_commit = self._gauge("last_commit_timestamp_seconds", "Unix time of the last commit to the table")
        self.dead_letters_open = self._gauge("dead_letters_open", "Dead letters that have not been repaired")
        self.table_files = self._gauge("table_files", "Files that a reader of the whole table opens")
        self.table_bytes = self._gauge("table_bytes", "Bytes of the files that a reader of the whole table opens")
        self.batch_seconds = self._gauge("batch_seconds", "Duration of the last batch")
        self.batch_rows = self._gauge("batch_rows", "Rows of the last batch")
        self.latest_keys = self._gauge("latest_keys", "Keys in the latest table that are not marked as deleted")
        self.latest_refreshed = self._gauge(
            "latest_refreshed_timestamp_seconds", "Unix time of the last refresh of the latest table"
        )
        self.latest_seconds = self._gauge("latest_refresh_seconds", "Duration of the last refresh of the latest table")
        self.latest_stopped = self._gauge(
            "latest_stopped", "1 if the latest table cannot be updated and needs attention, otherwise 0"
        )
        self.latest_failures = self._counter(
            "latest_failures", "Refreshes of the latest table that failed and were retried"
        )
        self.events = Counter(
            PREFIX + "events", "Events for the system topic, by outcome", ["outcome"], registry=self.registry
        )
        self._ages: dict[str, list[int]] = {}
        self.registry.register(self)

    def committed(self, pipeline: str, counts: BatchCounts) -> None:
        """Add the counts of one commit."""
        for name in ("rows", "dead_letters", "filtered", "expired_unread", "expired_starts", "bytes"):
            getattr(self, name).labels(pipeline).inc(getattr(counts, name))
        self.gaps.labels(pipeline).inc(len(counts.gaps))
        self.batches.labels(pipeline).inc()
        self._ages[pipeline] = commit_info.add_ages([self._ages.get(pipeline, []), counts.ages])

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """The ages as a histogram; the registry calls this at each scrape."""
        family = HistogramMetricFamily(
            PREFIX + "freshness_seconds", "Time from enqueued_at at the edge to the row on disk", labels=["pipeline"]
        )
        for pipeline, counts in self._ages.items():
            buckets, below = [], 0
            for bound, count in zip((*map(str, commit_info.AGE_BUCKETS), "+Inf"), counts, strict=True):
                below += count
                buckets.append((bound, below))
            family.add_metric([pipeline], buckets, sum_value=None)
        yield family

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(PREFIX + name, text, ["pipeline"], registry=self.registry)

    def _gauge(self, name: str, text: str, *more: str) -> Gauge:
        return Gauge(PREFIX + name, text, ["pipeline", *more], registry=self.registry)
