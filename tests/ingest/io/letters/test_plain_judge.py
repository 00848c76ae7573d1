"""Letters into rows without Spark, as the job's source and sink make them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.tables.letters_world import TOPIC, moment, name, payload

from fairlead_ingest.io.letters.correction import PlainJudge, needs_spark
from fairlead_ingest.io.sink import task_writer
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.settings import Pipeline

ENVELOPE = Pipeline.model_construct(format="envelope", transforms=[], schema_file=None)


def letters(*payloads: bytes) -> pa.Table:
    numbers = range(len(payloads))
    return pa.table(
        {
            "_topic": [TOPIC if number % 2 else "n/b" for number in numbers],
            "_id": [name(number) for number in numbers],
            "_published_at": pa.array([moment(number) for number in numbers], TIMESTAMP),
            "payload": pa.array(payloads, pa.binary()),
        }
    )


def test_a_message_is_a_row_and_nonsense_a_letter() -> None:
    """Of several topics at once, with the identity of the letter, its day, and a batch that is none."""
    judged = PlainJudge(ENVELOPE)(letters(payload(0), b"nonsense", payload(2)))
    kept, rejected = task_writer.split_valid(judged)
    found = {row["_id"]: row for row in kept.to_pylist()}
    assert sorted(found) == [name(0), name(2)]
    assert {row["_batch"] for row in found.values()} == {-1}
    assert found[name(0)]["_date"] == moment(0).date() and found[name(0)]["_published_at"] == moment(0)
    assert rejected.select(["_topic", "_id", "code"]).to_pylist() == [
        {"_topic": TOPIC, "_id": name(1), "code": "not_json"}
    ]


def test_a_raw_pipeline_takes_anything() -> None:
    raw = ENVELOPE.model_copy(update={"format": "raw"})
    kept, rejected = task_writer.split_valid(PlainJudge(raw)(letters(b"\xff")))
    assert (kept["payload"].to_pylist(), rejected.num_rows) == ([b"\xff"], 0)


@pytest.mark.parametrize(
    ("given", "needs"), [({}, False), ({"transforms": ["a:b"]}, True), ({"schema_file": "s.json"}, True)]
)
def test_columns_and_transforms_are_sparks(given: dict[str, object], needs: bool) -> None:
    assert needs_spark(ENVELOPE.model_copy(update=given)) is needs
