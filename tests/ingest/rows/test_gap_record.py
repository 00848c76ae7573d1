"""What agents report as lost is no row of the table."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.support.topics.messaging_service import upstream_message

from fairlead_edge.outbox import gaps as edge_gaps
from fairlead_ingest.rows import contract_file, envelope, gap_record
from fairlead_ingest.rows.contract import BodyJudge
from fairlead_ingest.rows.gap_record import GapRecord

BODY = {"queue": "iothub_Pri0", "from_sequence": 5, "to_sequence": 9, "count": 4, "reason": "checksum"}


def report(number: int, body: Any = BODY) -> bytes:
    return upstream_message(number, source=gap_record.SOURCE, body=body)


def page(*payloads: bytes, judge: BodyJudge | None = None) -> pa.Table:
    ids = pa.array([bytes([number]) * 20 for number in range(len(payloads))], pa.binary())
    moments = pa.array([0] * len(payloads), envelope.TIMESTAMP)
    batch = envelope.page("a/t", ids, moments, pa.array(payloads, pa.binary()), judge=judge)
    return pa.Table.from_batches([batch])


def test_the_source_is_the_agents():
    assert gap_record.SOURCE == edge_gaps.SOURCE


def test_records_leave_the_rows():
    rows, found = gap_record.split(page(upstream_message(1), report(2), upstream_message(3)))
    assert rows["id"].to_pylist() == ["edge-1-1", "edge-1-3"]
    assert found == [GapRecord(topic="a/t", id="01" * 20, node="edge-1", **BODY)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [None, 1, "x", [], {}, {**BODY, "count": -1}, {**BODY, "from_sequence": 2**63}, {**BODY, "queue": None}]
    + [{**BODY, "queue": "q" * 1025}, {**BODY, "reason": "r" * 1025}]
    + [{name: value for name, value in BODY.items() if name != missing} for missing in BODY],
)
def test_any_other_body_stays_a_row(body):
    rows, found = gap_record.split(page(report(1, body)))
    assert (rows.num_rows, found) == (1, [])


def test_what_a_task_holds_is_bounded():
    rows, found = gap_record.split(page(*(report(number) for number in range(5))), 3)
    assert (rows["id"].to_pylist(), len(found)) == (["edge-1-3", "edge-1-4"], 3)


def test_payloads_that_are_not_decoded_are_left_alone():
    raw = pa.table({"payload": [report(1)], "_topic": ["a/t"], "_id": ["00"]})
    assert gap_record.split(raw) == (raw, [])


@pytest.mark.parametrize(
    ("column", "value"),
    [("source", 7), ("source", {"path": gap_record.SOURCE}), ("body", BODY), ("node", 7), ("node", {"name": "edge-1"})],
)
def test_columns_of_another_type_are_left_alone(column, value):
    before = page(report(1), upstream_message(2))
    rows = before.set_column(before.column_names.index(column), column, pa.array([value, value]))
    assert gap_record.split(rows) == (rows, [])


def test_a_record_holds_no_longer_texts_than_a_commit_may():
    rows = page(report(1))
    rows = rows.set_column(rows.column_names.index("node"), "node", pa.array(["n" * 100_000]))
    (found,) = gap_record.split(rows)[1]
    assert len(found.node or "") == gap_record.TEXT_CHARS_MAX


def test_no_contract_judges_them():
    schema = {"columns": {"temperature": {"type": "double", "required": True}}}
    judge = contract_file.parse(json.dumps(schema), "s").judge()
    found = page(report(1), upstream_message(2, body={}), report(3, {"queue": "iothub"}), judge=judge)
    assert [error is None for error in found[envelope.MISFIT].to_pylist()] == [True, False, False]
    assert found[envelope.TYPED].to_pylist()[0] == gap_record.NO_BODY
