"""The metrics of the service, in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_messaging.server.inspection import TopicStats
from fairlead_messaging.server.log.rows import Messages, columns

LATENCY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TOPIC_LABELS_MAX = 10_000
PREFIX = "fairlead_messaging_"
CASSANDRA_PREFIX = "fairlead_messaging_cassandra_"


class Total(Collector):
    """A counter whose value is kept elsewhere and copied here before the metrics are read."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text, self._value = name, text, 0.0

    def set(self, value: float) -> None:
        self._value = value

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._text, value=self._value)


class LabelledTotals(Collector):
    """Such counters, one for each value of a label."""

    def __init__(self, name: str, text: str, label: str) -> None:
        self._name, self._text, self._label = name, text, label
        self._values: dict[str, int] = {}

    def set(self, values: Mapping[Any, int]) -> None:
        self._values = dict(values)

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=[self._label])
        for value, count in self._values.items():
            family.add_metric([value], count)
        yield family


class MessagingMetrics:
    """One registry per running service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.published = self._counter("published_messages", "Messages stored", "topic")
        self.published_bytes = self._counter("published_bytes", "Payload bytes stored", "topic")
        self.known = self._counter("known_messages", "Messages of a producer that had already been stored", "topic")
        self.polled = self._counter("polled_messages", "Messages returned to readers", "topic")
        self.refused = self._counter("refused_requests", "Requests refused, by error code", "code")
        self.access_refused = self._counter(
            "access_refused",
            "Requests that no access entry allows, by verb; none if the subject has no entry",
            "verb",
        )
        self.quota_refused = self._counter(
            "quota_refused", "Requests answered with 429 because of a namespace quota", "namespace_of_topic", "quota"
        )
        self.quota_stored = self._gauge(
            "quota_stored_bytes", "Bytes stored by a namespace that has a quota for them", "namespace_of_topic"
        )
        self.quota_stored_max = self._gauge(
            "quota_stored_bytes_max", "Quota of stored bytes of a namespace", "namespace_of_topic"
        )
        self.pushed = self._counter(
            "pushed_messages", "Messages of subscriptions handled, by outcome", "topic", "subscription", "outcome"
        )
        self.push_failures = self._counter(
            "push_failures", "Times a subscription paused for a reason other than its endpoint"
        )
        self.publish_seconds = self._histogram("publish_seconds", "Time until a publish was durable")
        self.poll_seconds = self._histogram("poll_seconds", "Duration of a poll, including the wait")
        self.connections = self._gauge("connections", "Open connections", "port")
        self.closed_connections = self._counter(
            "closed_connections",
            "Connections closed because they sent no request in time, to make room, or because they were refused",
            "port",
            "reason",
        )
        self.batches = self._total("batches", "Durable writes")
        self.failures = self._total("storage_failures", "Failed writes")
        self.backup_taken = self._gauge(
            "backup_taken_timestamp_seconds", "Unix time of the newest complete backup; 0 if there is none"
        )
        self.waiting = self._gauge("waiting_commands", "Commands waiting for a write")
        self.long_polls = self._gauge("long_polls", "Readers waiting for new messages")
        self.body_bytes = self._gauge("body_bytes", "Bytes of request bodies being received or processed")
        self.page_bytes = self._gauge("page_bytes", "Bytes of pages being sent to readers")
        self.removed = self._total("removed_rows", "Removals by cleanup; a whole range counts as one")
        self.cleanups = self._total("cleanups", "Finished cleanup passes")
        self.cache_bytes = self._gauge("cache_bytes", "Bytes of recent pages in memory")
        self.cache_hits = self._total("cache_hits", "Polls answered from memory")
        self.cache_misses = self._total("cache_misses", "Polls answered from the store")
        self.transactions = self._gauge("transactions_in_progress", "Transactions that may still publish")
        self.oldest_start = self._gauge(
            "transactions_min_start_timestamp_seconds",
            "Unix time at which the oldest transaction in progress started; 0 if there is none",
        )
        self.oldest_seconds = self._gauge(
            "transactions_oldest_seconds", "Age of the oldest transaction in progress; 0 if there is none"
        )
        self.unmarked = self._gauge(
            "transactions_unmarked", "Aborted transactions whose messages are not all marked yet"
        )
        self.ended = LabelledTotals(PREFIX + "transactions_ended", "Transactions the service ended by itself", "reason")
        self.registry.register(self.ended)
        self.transactions_unavailable = self._gauge(
            "transactions_unavailable", "1 while calls that need transactions are refused, otherwise 0"
        )
        self.transaction_failures = self._total(
            "transaction_failures", "Times the transaction tables could not be read or processed"
        )
        self.messages = self._gauge("topic_messages", "Messages in a topic", "topic")
        self.bytes = self._gauge("topic_bytes", "Payload bytes in a topic", "topic")
        self.blocked = self._gauge("topic_blocked_seconds", "Age of a topic's first uncommitted message", "topic")
        self.lag_messages = self._gauge("reader_lag_messages", "Messages a reader is behind", "topic", "reader")
        self.lag_seconds = self._gauge("reader_lag_seconds", "Age of a reader's next message", "topic", "reader")
        # Finding a labelled child costs more than incrementing it, so those of a topic are looked up once.
        self._published = lru_cache(TOPIC_LABELS_MAX)(
            lambda topic: (self.published.labels(topic), self.published_bytes.labels(topic))
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, text, labels, registry=self.registry)

    def _total(self, name: str, text: str) -> Total:
        total = Total(PREFIX + name, text)
        self.registry.register(total)
        return total

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(PREFIX + name, text, buckets=LATENCY_SECONDS, registry=self.registry)

    def show_certificate(self, ends: Callable[[], float]) -> None:
        """From now on: when our own certificate ends."""
        text = "Unix time at which the service's own certificate expires; 0 if it cannot be read"
        self._gauge("certificate_ends_timestamp_seconds", text).set_function(ends)

    def note_published(self, topic: str, messages: Messages, known: int) -> None:
        count, size = self._published(topic)
        stored = len(messages) - known
        if stored:
            count.inc(stored)
            size.inc(sum(map(len, columns(messages)[0])))
        if known:
            self.known.labels(topic).inc(known)

    def show_topic_stats(self, found: list[TopicStats]) -> None:
        """Replace the metrics of all topics; those of deleted topics disappear."""
        for gauge in (self.messages, self.bytes, self.blocked, self.lag_messages, self.lag_seconds):
            gauge.clear()
        for each in found:
            self.messages.labels(each.topic).set(each.messages)
            self.bytes.labels(each.topic).set(each.size)
            if each.blocked_seconds is not None:
                self.blocked.labels(each.topic).set(each.blocked_seconds)
            for reader in each.readers:
                self.lag_messages.labels(each.topic, reader.name).set(reader.lag_messages)
                self.lag_seconds.labels(each.topic, reader.name).set(reader.lag_seconds)

    def show_quotas(self, found: Mapping[str, tuple[int, int]]) -> None:
        """Replace what each namespace holds and may hold."""
        self.quota_stored.clear()
        self.quota_stored_max.clear()
        for namespace, (held, limit) in found.items():
            self.quota_stored.labels(namespace).set(held)
            self.quota_stored_max.labels(namespace).set(limit)

    def show_transactions(
        self, in_progress: int, unmarked: int, oldest_start_ms: int | None, ended: Mapping[Any, int], now_ms: int
    ) -> None:
        self.transactions.set(in_progress)
        self.unmarked.set(unmarked)
        self.oldest_start.set((oldest_start_ms or 0) / 1000)
        self.oldest_seconds.set(max(0, now_ms - oldest_start_ms) / 1000 if oldest_start_ms is not None else 0)
        self.ended.set(ended)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class CassandraMetrics:
    """The metrics of the store on Cassandra, registered only where that is the store."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            CASSANDRA_PREFIX + "request_seconds",
            "Duration of answered requests to Cassandra, by operation",
            ["operation"],
            buckets=LATENCY_SECONDS,
            registry=registry,
        )
        self._unknown = Counter(
            CASSANDRA_PREFIX + "unknown_outcomes",
            "Writes without a response; each outcome was determined before the service answered",
            registry=registry,
        )
        self._repeated = Counter(
            CASSANDRA_PREFIX + "repeated_writes",
            "Writes with an unknown outcome that had not taken place and were repeated",
            registry=registry,
        )
        self._taken_over = Counter(
            CASSANDRA_PREFIX + "taken_over", "Times another instance took over writing", registry=registry
        )
        self._unapplied = Gauge(
            CASSANDRA_PREFIX + "unapplied_batches",
            "Durable batches that are only in the journal so far",
            registry=registry,
        )

    def note_request(self, operation: str, seconds: float) -> None:
        self._seconds.labels(operation).observe(seconds)

    def note_unknown(self) -> None:
        self._unknown.inc()

    def note_repeated(self) -> None:
        self._repeated.inc()

    def note_taken_over(self) -> None:
        self._taken_over.inc()

    def show_unapplied(self, batches: int) -> None:
        self._unapplied.set(batches)
