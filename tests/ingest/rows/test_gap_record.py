"""What agents report as lost is no row of the table."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.support.topics.messaging_service import upstream_message

from fairlead_edge.outbox import gaps as edge_gaps
from fairlead_ingest.rows import contract_file, envelope, gap_record
from fairlead_ingest.rows.gap_record import GapRecord
from fairlead_ingest.rows.schema import BodyJudge

BODY = {"queue": "iothub_Pri0", "from_sequence": 5, "to_sequence": 9, "count": 4, "reason": "checksum"}


def report(number: int, body: Any = BODY) -> bytes:
    return upstream_message(number, source=gap_record.SOURCE, body=body)


def page(*payloads: bytes, judge: BodyJudge | None = None) -> pa.Table:
    ids = pa.array([bytes([number]) * 20 for number in range(len(payloads))], pa.binary())
    moments = pa.array([0] * len(payloads), envelope.TIMESTAMP)
    batch = envelope.page("a/t", ids, moments, pa.array(payloads, pa.binary()), judge=judge)
    return pa.Table.from_batches([batch])


def test_the_source_is_the_agents() -> None:
    assert gap_record.SOURCE == edge_gaps.SOURCE


def test_records_leave_the_rows() -> None:
    """In their order, with the place at which the report stands."""
    rows, found = gap_record.split(page(upstream_message(1), report(2), upstream_message(3)))
    assert rows["id"].to_pylist() == ["edge-1-1", "edge-1-3"]
    assert found == [GapRecord(topic="a/t", id="01" * 20, node="edge-1", **BODY)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [None, 1, "x", [], {}, {**BODY, "count": -1}, {**BODY, "from_sequence": 2**63}, {**BODY, "queue": None}]
    + [{name: value for name, value in BODY.items() if name != missing} for missing in BODY],
)
def test_any_other_body_stays_a_row(body: Any) -> None:
    rows, found = gap_record.split(page(report(1, body)))
    assert (rows.num_rows, found) == (1, [])


def test_what_a_task_holds_is_bounded() -> None:
    """What has no room stays among the rows; nothing is lost."""
    rows, found = gap_record.split(page(*(report(number) for number in range(5))), 3)
    assert (rows["id"].to_pylist(), len(found)) == (["edge-1-3", "edge-1-4"], 3)


def test_payloads_that_are_not_decoded_are_left_alone() -> None:
    raw = pa.table({"payload": [report(1)], "_topic": ["a/t"], "_id": ["00"]})
    assert gap_record.split(raw) == (raw, [])


def test_no_contract_judges_them() -> None:
    """Its required columns are of what devices measure."""
    schema = {"columns": {"temperature": {"type": "double", "required": True}}}
    judge = contract_file.parse(json.dumps(schema), "s").judge()
    found = page(report(1), upstream_message(2, body={}), report(3, {"queue": "iothub"}), judge=judge)
    assert [error is None for error in found[envelope.MISFIT].to_pylist()] == [True, False, False]
    assert found[envelope.TYPED].to_pylist()[0] == gap_record.NO_BODY
