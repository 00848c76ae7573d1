"""Columns from columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.rows import contract_file, envelope, transforms
from fairlead_ingest.rows.contract import misfit

JUDGE = contract_file.parse('{"columns": {"temperature": "double"}}', "s").judge()


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """As the source gives them for this contract: with its verdict on each body."""
    payloads = [
        upstream_message(1, body={"temperature": 1.5, "more": 1}),
        upstream_message(2, body={"temperature": "warm"}),
        upstream_message(3, body={}),
        b"broken",
    ]
    moment = pa.array([1_795_176_000_000_000] * 4, pa.timestamp("us", tz="UTC"))
    ids = pa.array([b"1", b"2", b"3", b"4"], pa.binary())
    page = envelope.page("a/t", ids, moment, pa.array(payloads, pa.binary()), judge=JUDGE)
    return spark.createDataFrame(pa.Table.from_batches([page]))


def test_frozen_columns_send_misfits_to_the_dead_letters(rows: DataFrame) -> None:
    """The error of a payload that was no message stays what it was."""
    contract = contract_file.parse('{"columns": {"temperature": "double"}}', "s")
    found = transforms.typed(rows, contract).orderBy("_id").collect()
    assert [row.temperature for row in found] == [1.5, None, None, None]
    assert found[0]._error is None and found[2]._error is None
    told = misfit(found[1]._error, found[1].body, ())
    assert told == ('body does not fit the schema at temperature: {"temperature": "warm"}', ["temperature"])
    assert found[3]._error.startswith("JSON is malformed")


def test_rescued_columns_keep_the_row(rows: DataFrame) -> None:
    """The body that did not fit stays beside its nulls."""
    contract = contract_file.parse('{"mode": "rescue", "columns": {"temperature": "double"}}', "s")
    found = transforms.typed(rows, contract).orderBy("_id").collect()
    assert found[1]._error is None and found[1]._rescued == '{"temperature": "warm"}'
    assert found[0]._rescued is None


def test_lineage_is_the_utc_day_of_publishing(rows: DataFrame) -> None:
    """Not of reading, not of here."""
    found = transforms.lineage(rows).first()
    assert found is not None
    assert found._date.isoformat() == "2026-11-20"
    assert found._ingested_at is not None
