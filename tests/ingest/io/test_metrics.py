"""Numbers for Prometheus."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from fairlead_ingest.io.metrics import Metrics
from fairlead_ingest.table import freshness
from fairlead_ingest.table.commit_info import BatchCounts


def test_commits_add_up() -> None:
    """Counts come from the table's commits, ages as a cumulative histogram."""
    metrics = Metrics()
    ages = [3, 2] + [0] * (len(freshness.BUCKETS) - 1)
    for _ in range(2):
        metrics.committed("p", BatchCounts(rows=5, dead_letters=1, expired_unread=2, filtered=3, ages=ages))
    text = generate_latest(metrics.registry).decode()
    assert 'fairlead_ingest_rows_total{pipeline="p"} 10.0' in text
    assert 'fairlead_ingest_dead_letters_total{pipeline="p"} 2.0' in text
    assert 'fairlead_ingest_filtered_total{pipeline="p"} 6.0' in text
    assert 'fairlead_ingest_expired_unread_total{pipeline="p"} 4.0' in text
    assert 'fairlead_ingest_freshness_seconds_bucket{le="0.1",pipeline="p"} 6.0' in text
    assert 'fairlead_ingest_freshness_seconds_bucket{le="+Inf",pipeline="p"} 10.0' in text


@pytest.mark.process
def test_the_dashboard_asks_for_series_there_are() -> None:
    """The shipped JSON is what its source writes, and every series in it is one of ours."""
    folder = Path(__file__).resolve().parents[3] / "examples" / "grafana"
    written = subprocess.run([sys.executable, folder / "ingest.py"], capture_output=True, text=True, check=True).stdout
    assert (folder / "ingest.json").read_text() == written
    metrics = Metrics()
    metrics.committed("p", BatchCounts(rows=1, ages=[1]))
    for gauge in (metrics.lag_rows, metrics.lag_seconds):
        gauge.labels("p", "a/t").set(1)
    for gauge in (metrics.last_commit, metrics.batch_seconds, metrics.batch_rows):
        gauge.labels("p").set(1)
    served = generate_latest(metrics.registry).decode()
    wanted = set(re.findall(r"fairlead_ingest_\w+", written))
    assert len(wanted) >= 8
    assert [name for name in wanted if f"{name}{{" not in served] == []
