"""Reading again what a table lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from pyspark.sql import SparkSession
from tests.support.messaging_service import MessagingService, upstream_message

from fairlead_ingest.io import backfill
from fairlead_ingest.settings import Settings


def test_only_what_is_missing_is_added(
    spark: SparkSession, messaging: MessagingService, topic: str, tmp_path: Path
) -> None:
    """Twice the same time is once the rows; dead letters too; another time is nothing."""
    settings = msgspec.convert(
        {
            "messaging_url": messaging.url,
            "topics": [topic],
            "table": str(tmp_path / "rows"),
            "checkpoint": str(tmp_path / "checkpoint"),
            "security": "insecure",
        },
        Settings,
    )

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
