"""How large a table is, for Prometheus: asked now and then, and a table that cannot be read stops nothing."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from prometheus_client import generate_latest

from fairlead_ingest import errors
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.pipeline.watchers import SIZE_SECONDS, SizeWatcher
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.io.table.tables import UNNUMBERED, of

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])


def lines(metrics: IngestMetrics) -> list[str]:
    text = generate_latest(metrics.registry).decode()
    return [line for line in text.splitlines() if line.startswith("fairlead_ingest_table_")]


def test_files_and_bytes_of_a_table(tmp_path: Path) -> None:
    """Nothing is said of a table that is not there; then its size, at most once a minute."""
    form, table, metrics = of("delta"), tmp_path / "rows", IngestMetrics()
    watching = SizeWatcher("p", form, table, metrics)
    watching.ask(NOW)
    assert lines(metrics) == []
    form.ensure(table, SCHEMA)
    writing = form.writing(table)
    row = {"_id": "a", "_topic": "a/t", "_date": NOW.date()}
    writing.add(pa.Table.from_pylist([row], schema=SCHEMA))
    form.append(table, writing.close(), UNNUMBERED)
    watching.ask(NOW + datetime.timedelta(seconds=SIZE_SECONDS - 1))
    assert lines(metrics) == []
    watching.ask(NOW + datetime.timedelta(seconds=SIZE_SECONDS))
    assert 'fairlead_ingest_dead_letters_open{pipeline="p"} 0.0' in generate_latest(metrics.registry).decode()
    size = float(sum(path.stat().st_size for path in table.rglob("*.parquet")))
    assert lines(metrics) == [
        'fairlead_ingest_table_files{pipeline="p"} 1.0',
        f'fairlead_ingest_table_bytes{{pipeline="p"}} {size}',
    ]


@pytest.mark.parametrize("error", [errors.Wait(errors.STORE_AWAY, "away"), OSError("gone"), DeltaError("broken")])
def test_a_table_that_cannot_be_read_is_asked_again(error: Exception) -> None:
    class Broken:
        def size(self, _: object) -> Any:
            raise error

    metrics = IngestMetrics()
    SizeWatcher("p", cast(TableFormat, Broken()), Path("/nowhere"), metrics).ask(NOW)
    assert lines(metrics) == []
