"""Numbers for Prometheus."""

from __future__ import annotations

from prometheus_client import generate_latest

from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.table import commit_info
from fairlead_ingest.table.commit_info import BatchCounts


def test_commits_add_up():
    metrics = IngestMetrics()
    ages = [3, 2] + [0] * (len(commit_info.AGE_BUCKETS) - 1)
    for _ in range(2):
        metrics.committed("p", BatchCounts(rows=5, dead_letters=1, expired_unread=2, filtered=3, ages=ages))
    text = generate_latest(metrics.registry).decode()
    assert 'fairlead_ingest_rows_total{pipeline="p"} 10.0' in text
    assert 'fairlead_ingest_dead_letters_total{pipeline="p"} 2.0' in text
    assert 'fairlead_ingest_filtered_total{pipeline="p"} 6.0' in text
    assert 'fairlead_ingest_expired_unread_total{pipeline="p"} 4.0' in text
    assert 'fairlead_ingest_gaps_total{pipeline="p"} 0.0' in text
    assert 'fairlead_ingest_freshness_seconds_bucket{le="0.1",pipeline="p"} 6.0' in text
    assert 'fairlead_ingest_freshness_seconds_bucket{le="+Inf",pipeline="p"} 10.0' in text
