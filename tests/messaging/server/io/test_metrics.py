"""Metrics in text."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from fairlead_messaging.api.responses import Reader
from fairlead_messaging.server.inspection import TopicStats
from fairlead_messaging.server.io.metrics import CASSANDRA_PREFIX, CassandraMetrics, MessagingMetrics
from fairlead_messaging.server.log.rows import LoggedMessage


def test_publish_counts_messages_and_bytes() -> None:
    """Known ones apart."""
    metrics = MessagingMetrics()
    metrics.note_published("n/t", [LoggedMessage(b"abc"), LoggedMessage(b"de")], 0)
    metrics.note_published("n/t", [LoggedMessage(b"abc")], 1)
    text = metrics.text().decode()
    assert 'fairlead_messaging_published_messages_total{topic="n/t"} 2.0' in text
    assert 'fairlead_messaging_published_bytes_total{topic="n/t"} 5.0' in text
    assert 'fairlead_messaging_known_messages_total{topic="n/t"} 1.0' in text


def test_topic_stats_replace_each_other() -> None:
    """A topic that is gone is no longer shown."""
    metrics = MessagingMetrics()
    reader = Reader(name="r", position="", updated_ms=0, lag_messages=3, lag_seconds=1.5)
    metrics.show_topic_stats([TopicStats(topic="n/t", messages=5, size=9, blocked_seconds=2.0, readers=[reader])])
    assert 'reader_lag_messages{reader="r",topic="n/t"} 3.0' in metrics.text().decode()
    metrics.show_topic_stats([])
    assert "n/t" not in metrics.text().decode()


def test_what_only_rises_is_a_counter() -> None:
    """`rate()` over a gauge takes a restart for a fall; the service's own totals are taken over as they are."""
    metrics = MessagingMetrics()
    totals = ("batches", "storage_failures", "removed_rows", "cleanups", "cache_hits", "cache_misses")
    for total in (metrics.batches, metrics.failures, metrics.removed, metrics.cleanups, metrics.cache_hits):
        total.set(3)
    metrics.cache_misses.set(3)
    text = metrics.text().decode()
    for name in totals:
        assert f"# TYPE fairlead_messaging_{name}_total counter" in text
        assert f"fairlead_messaging_{name}_total 3.0" in text
    gauges = [each for each in metrics.registry.collect() if each.type == "gauge"]
    assert gauges and not [each.name for each in gauges if "since" in each.documentation]


def test_the_certificates_end_is_shown_where_there_is_one() -> None:
    """Asked each time: its file may have been replaced."""
    metrics = MessagingMetrics()
    assert "certificate_ends" not in metrics.text().decode()
    metrics.show_certificate(lambda: 1.9e9)
    assert "fairlead_messaging_certificate_ends_timestamp_seconds 1.9e+09" in metrics.text().decode()


def test_everything_noted_is_a_metric() -> None:
    """Under its name."""
    registry = CollectorRegistry()
    metrics = CassandraMetrics(registry)
    metrics.note_request("commit", 0.2)
    metrics.note_unknown()
    metrics.note_repeated()
    metrics.note_taken_over()
    metrics.show_unapplied(3)
    assert registry.get_sample_value(CASSANDRA_PREFIX + "request_seconds_count", {"operation": "commit"}) == 1
    for name, value in (("unknown_outcomes", 1), ("repeated_writes", 1), ("taken_over", 1)):
        assert registry.get_sample_value(f"{CASSANDRA_PREFIX}{name}_total") == value
    assert registry.get_sample_value(CASSANDRA_PREFIX + "unapplied_batches") == 3
