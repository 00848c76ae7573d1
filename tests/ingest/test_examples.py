"""What the examples say is what the table holds, whichever engine reads it."""

from __future__ import annotations

import datetime
import importlib.util
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from tests.support.tables.table_formats import append_rows, format_of
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.rows import envelope

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
    return filled(tables.of("delta"), tmp_path)


def filled(table_format: TableFormat, tmp_path: Path) -> str:
    now = datetime.datetime.now(datetime.UTC)
    payloads = [upstream_message(number) for number in (1, 2, 3)] + [upstream_message(4, node="edge-2")]
    moments = pa.array([now] * 4, envelope.TIMESTAMP)
    ids = pa.array([bytes([number]) * 20 for number in range(4)], pa.binary())
    page = pa.Table.from_batches([envelope.page("a/t", ids, moments, pa.array(payloads, pa.binary()))])
    rows = page.drop_columns(["_error", "_payload"]).append_column("_date", pa.array([now.date()] * 4, pa.date32()))
    table_format.ensure(tmp_path / "rows", rows.schema)
    append_rows(table_format, tmp_path / "rows", rows)
    return str(tmp_path / "rows")


def grown(table: str) -> str:
    """The same table with a column that its first files lack, and one more message."""
    table_format = tables.of("delta")
    rows = tables.existing(table_format, Path(table)).to_table().slice(0, 1)
    rows = rows.append_column("warm", pa.array([True]))
    table_format.ensure(Path(table), rows.schema)
    append_rows(table_format, Path(table), rows)
    return table


def test_by_name_from_a_catalog(spark, tmp_path):
    table_format, reading = format_of("iceberg", tmp_path), example("from_catalog")
    table = Path(filled(table_format, tmp_path))

    def counts() -> list[int]:
        found = reading.find(f"sqlite:///{tmp_path}/catalog.db", "fairlead.rows")
        answers = (
            reading.with_polars(found).rows(), reading.with_duckdb(found),
            [tuple(row) for row in reading.with_spark(spark, found)],
        )  # fmt: skip
        assert answers[0] == answers[1] == answers[2]
        return [row[1] for row in answers[0]]

    assert reading.with_duckdb(reading.find(f"sqlite:///{tmp_path}/catalog.db", "fairlead.rows")) == EXPECTED
    assert counts() == [3, 1]
    rows = tables.existing(table_format, table).to_table().slice(0, 1).append_column("warm", pa.array([True]))
    table_format.ensure(table, rows.schema)
    append_rows(table_format, table, rows)
    assert sum(counts()) == 5


def test_tables_that_have_grown_by_a_column_are_read_whole(spark, table):
    grown(table)
    assert sum(row[1] for row in example("with_polars").by_node(table).rows()) == 5
    assert sum(row[1] for row in example("with_duckdb").by_node(table)) == 5
    assert sum(row[1] for row in example("with_spark").by_node(spark, table)) == 5


def test_polars(table):
    assert example("with_polars").by_node(table).rows() == EXPECTED


def test_duckdb(table):
    assert example("with_duckdb").by_node(table) == EXPECTED


def test_spark_sql(spark, table):
    assert [tuple(row) for row in example("with_spark").by_node(spark, table)] == EXPECTED
