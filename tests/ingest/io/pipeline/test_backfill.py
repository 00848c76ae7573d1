"""Reading again what a table lacks."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.support.topics.job_settings import job_settings
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.io.pipeline import backfill
from fairlead_ingest.settings import Pipeline
from fairlead_messaging.client.io.sync_client import BulkClient


@pytest.mark.verify
def test_only_what_is_missing_is_added(spark, messaging, topic, tmp_path):
    """Twice the same time is once the rows; dead letters too; another time is nothing."""
    settings = job_settings(tmp_path, messaging.url, topic)

    def run(**bounds: Any) -> dict[str, int]:
        span = {"from_ms": None, "until_ms": None, **bounds}
        return backfill.run(spark, settings, settings.jobs()[0], into=tmp_path / "rows", **span)

    messaging.publish(topic, [upstream_message(1), b"broken", upstream_message(2)])
    assert run(from_ms=4_000_000_000_000) == {"rows_before": 0, "rows_added": 0}
    assert run() == {"rows_before": 0, "rows_added": 2}
    messaging.publish(topic, [upstream_message(3)])
    assert run(from_ms=0) == {"rows_before": 2, "rows_added": 1}
    table = pl.scan_delta(str(tmp_path / "rows")).collect()
    assert sorted(table["sequence"].to_list()) == [1, 2, 3]
    assert set(table["_batch"].to_list()) == {-1}
    assert pl.scan_delta(str(tmp_path / "rows_dead_letters")).collect().height == 1


@pytest.mark.verify
def test_a_long_time_is_read_in_ranges_with_progress(spark, messaging, topic, tmp_path):
    """Each is committed by itself; together they are all, once."""
    settings = job_settings(tmp_path, messaging.url, topic, topic + "-none", limits={"batch_rows": 4})
    for number in range(10):
        messaging.publish(topic, [upstream_message(number)])
    told: list[int] = []
    told_of = {"total": told.append, "progress": told.append}
    [job] = settings.jobs()
    done = backfill.run(spark, settings, job, from_ms=None, until_ms=None, into=tmp_path / "rows", **told_of)
    assert done == {"rows_before": 0, "rows_added": 10}
    assert told[0] == sum(told[1:]) == 10
    assert len(told) >= 3
    table = pl.scan_delta(str(tmp_path / "rows")).collect()
    assert sorted(table["sequence"].to_list()) == list(range(10))


def test_time_ranges_meet_without_a_gap_and_keep_to_their_bounds(messaging, topic):
    pipeline = Pipeline(topics=[topic], table="t", checkpoint="c")
    for number in range(6):
        messaging.publish(topic, [b"%d" % number])
    with BulkClient(messaging.url) as client:
        found = backfill.time_ranges(client, pipeline, None, None, 2)
        assert backfill.time_ranges(client, pipeline, 4_000_000_000_000, None, 2) == []
        assert backfill.time_ranges(client, pipeline, None, 1, 2) == []
    assert found[0].from_ms is None
    assert [each.until_ms for each in found[:-1]] == [each.from_ms for each in found[1:]]
    assert sum(each.rows for each in found) == 6
