"""What the examples say is what the table holds, whichever engine reads it."""

from __future__ import annotations

import datetime
import importlib.util
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.messaging_service import upstream_message

from fairlead_ingest import envelope
from fairlead_ingest.io import delta, tables

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "read"
EXPECTED = [("edge-1", 3, 0.2), ("edge-2", 1, 0.4)]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def table(tmp_path: Path) -> str:
    now = datetime.datetime.now(datetime.UTC)
    payloads = [upstream_message(number) for number in (1, 2, 3)] + [upstream_message(4, node="edge-2")]
    moments = pa.array([now] * 4, envelope.TIMESTAMP)
    ids = pa.array([bytes([number]) * 20 for number in range(4)], pa.binary())
    page = pa.Table.from_batches([envelope.page("a/t", ids, moments, pa.array(payloads, pa.binary()))])
    rows = page.drop_columns(["_error", "_payload"]).append_column("_date", pa.array([now.date()] * 4, pa.date32()))
    delta.ensure(tmp_path / "rows", rows.schema)
    writing = delta.writing(tmp_path / "rows")
    writing.add(rows)
    delta.append(tmp_path / "rows", writing.close(), tables.UNNUMBERED)
    return str(tmp_path / "rows")


def test_polars(table: str) -> None:
    """A data frame, lazily."""
    assert example("with_polars").by_node(table).rows() == EXPECTED


def test_duckdb(table: str) -> None:
    """SQL without a server."""
    assert example("with_duckdb").by_node(table) == EXPECTED


def test_spark_sql(spark: SparkSession, table: str) -> None:
    """SQL with one."""
    assert [tuple(row) for row in example("with_spark").by_node(spark, table)] == EXPECTED
