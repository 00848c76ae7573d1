"""Rows whose messages are sampled, by their properties alone."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
from tests.support.spans import place

from fairlead_ingest.rows import envelope, transforms
from fairlead_wire.traces.trace import LATE_SECONDS, LINKS_MAX

MOMENT = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
NOW = MOMENT.timestamp()


def rows(*properties: dict[str, Any] | str | None, at: datetime.datetime | None = MOMENT) -> pa.RecordBatch:
    texts = [each if isinstance(each, str | None) else json.dumps(each, separators=(",", ":")) for each in properties]
    columns = {
        "properties": pa.array(texts, pa.string()),
        "enqueued_at": pa.array([at] * len(texts), envelope.TIMESTAMP),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_sampled_messages_are_found() -> None:
    found = transforms.find(
        rows(
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


def test_what_is_no_map_of_texts_is_passed_over() -> None:
    mark = f'"traceparent":"{place(1)}"'
    assert transforms.find(rows(f'{{"a":[],{mark}}}', f"{{{mark}", f"[{mark}]"), NOW) == []


def test_what_waited_long_is_late() -> None:
    batch = rows({"traceparent": str(place(1))})
    assert transforms.find(batch, NOW + LATE_SECONDS) == [(str(place(1)), False)]
    assert transforms.find(batch, NOW + LATE_SECONDS + 1) == [(str(place(1)), True)]
    assert transforms.find(rows({"traceparent": str(place(1))}, at=None), NOW) == [(str(place(1)), False)]


def test_at_most_so_many_are_looked_for() -> None:
    many = rows(*({"traceparent": str(place(number))} for number in range(1, 100)))
    assert len(transforms.find(many, NOW)) == LINKS_MAX
    assert len(transforms.find(many, NOW, 2)) == 2


def test_rows_without_properties_have_no_traces() -> None:
    """A raw topic, or a transform of the user's that drops them."""
    assert transforms.find(pa.RecordBatch.from_pydict({"payload": pa.array([b"x"])}), NOW) == []
    without_time = rows({"traceparent": str(place(1))}).select(["properties"])
    assert transforms.find(without_time, NOW) == [(str(place(1)), False)]


def test_columns_that_a_transform_gave_another_type_cost_the_trace_and_not_the_batch() -> None:
    batch = rows({"traceparent": str(place(1))})
    maps = pa.array([[("traceparent", str(place(1)))]], pa.map_(pa.string(), pa.string()))
    for other in (maps, pa.array([1]), pa.array([{"traceparent": str(place(1))}])):
        assert transforms.find(batch.set_column(0, "properties", other), NOW) == []
    for other in (pa.array(["noon"]), pa.array([1.5]), pa.array([MOMENT.date()])):
        assert transforms.find(batch.set_column(1, "enqueued_at", other), NOW) == [(str(place(1)), False)]
