"""What is counted."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from fairlead_messaging.server.io.stores.cassandra.observer import PREFIX, CassandraMetrics


def test_everything_noted_is_a_metric() -> None:
    """Under its name."""
    registry = CollectorRegistry()
    metrics = CassandraMetrics(registry)
    metrics.note_request("commit", 0.2)
    metrics.note_unknown()
    metrics.note_repeated()
    metrics.note_taken_over()
    metrics.show_unapplied(3)
    assert registry.get_sample_value(PREFIX + "request_seconds_count", {"operation": "commit"}) == 1
    for name, value in (("unknown_outcomes", 1), ("repeated_writes", 1), ("taken_over", 1)):
        assert registry.get_sample_value(f"{PREFIX}{name}_total") == value
    assert registry.get_sample_value(PREFIX + "unapplied_batches") == 3
