"""Adding typed and lineage columns, and finding sampled messages by their properties."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.spans import place
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.rows import contract_file, envelope, transforms
from fairlead_ingest.rows.contract import misfit
from fairlead_wire.traces.trace import LATE_SECONDS, LINKS_MAX

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


def test_frozen_columns_send_misfits_to_the_dead_letters(rows):
    contract = contract_file.parse('{"columns": {"temperature": "double"}}', "s")
    found = transforms.typed(rows, contract).orderBy("_id").collect()
    assert [row.temperature for row in found] == [1.5, None, None, None]
    assert found[0]._error is None and found[2]._error is None
    told = misfit(found[1]._error, found[1].body, ())
    assert told == (
        'body does not fit the contract at "temperature" (is not of type double): {"temperature": "warm"}',
        ["temperature"],
    )
    assert found[3]._error.startswith("JSON is malformed")


def test_rescued_columns_keep_the_row(rows):
    contract = contract_file.parse('{"mode": "rescue", "columns": {"temperature": "double"}}', "s")
    found = transforms.typed(rows, contract).orderBy("_id").collect()
    assert found[1]._error is None and found[1]._rescued == '{"temperature": "warm"}'
    assert found[0]._rescued is None


def test_lineage_is_the_utc_day_of_publishing(rows):
    found = transforms.lineage(rows).first()
    assert found is not None
    assert found._date.isoformat() == "2026-11-20"
    assert found._ingested_at is not None


MOMENT = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
NOW = MOMENT.timestamp()


def rows_row_traces(*properties: dict[str, Any] | str | None, at: datetime.datetime | None = MOMENT) -> pa.RecordBatch:
    texts = [each if isinstance(each, str | None) else json.dumps(each, separators=(",", ":")) for each in properties]
    columns = {
        "properties": pa.array(texts, pa.string()),
        "enqueued_at": pa.array([at] * len(texts), envelope.TIMESTAMP),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_sampled_messages_are_found():
    found = transforms.find(
        rows_row_traces(
            None,
            {},
            {"traceparent": str(place(1))},
            {"traceparent": str(place(2, sampled=False))},
            {"kind": "a", "traceparent": str(place(3))},
            {"other": str(place(4))},
            {"traceparent": str(place(1))},
        ),
        NOW,
    )
    assert found == [(str(place(1)), False), (str(place(3)), False)]


def test_what_is_no_map_of_texts_is_passed_over():
    mark = f'"traceparent":"{place(1)}"'
    assert transforms.find(rows_row_traces(f'{{"a":[],{mark}}}', f"{{{mark}", f"[{mark}]"), NOW) == []


def test_what_waited_long_is_late():
    batch = rows_row_traces({"traceparent": str(place(1))})
    assert transforms.find(batch, NOW + LATE_SECONDS) == [(str(place(1)), False)]
    assert transforms.find(batch, NOW + LATE_SECONDS + 1) == [(str(place(1)), True)]
    assert transforms.find(rows_row_traces({"traceparent": str(place(1))}, at=None), NOW) == [(str(place(1)), False)]


def test_at_most_so_many_are_looked_for():
    many = rows_row_traces(*({"traceparent": str(place(number))} for number in range(1, 100)))
    assert len(transforms.find(many, NOW)) == LINKS_MAX
    assert len(transforms.find(many, NOW, 2)) == 2


def test_rows_without_properties_have_no_traces():
    assert transforms.find(pa.RecordBatch.from_pydict({"payload": pa.array([b"x"])}), NOW) == []
    without_time = rows_row_traces({"traceparent": str(place(1))}).select(["properties"])
    assert transforms.find(without_time, NOW) == [(str(place(1)), False)]


def test_columns_that_a_transform_gave_another_type_cost_the_trace_and_not_the_batch():
    batch = rows_row_traces({"traceparent": str(place(1))})
    maps = pa.array([[("traceparent", str(place(1)))]], pa.map_(pa.string(), pa.string()))
    for other in (maps, pa.array([1]), pa.array([{"traceparent": str(place(1))}])):
        assert transforms.find(batch.set_column(0, "properties", other), NOW) == []
    for other in (pa.array(["noon"]), pa.array([1.5]), pa.array([MOMENT.date()])):
        assert transforms.find(batch.set_column(1, "enqueued_at", other), NOW) == [(str(place(1)), False)]
