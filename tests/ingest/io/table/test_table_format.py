"""What the kinds of table have in common."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Schema

from fairlead_ingest import errors
from fairlead_ingest.io.table import table_format


def test_only_what_is_missing_is_asked_for_and_a_clash_is_named():
    held = Schema.from_arrow(pa.schema([("b", pa.string())]))
    wanted = pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.int64())])
    assert [field.name for field in table_format.missing_columns(Path("t"), held, wanted)] == ["a", "c"]
    with pytest.raises(errors.Stop, match="t: column b"):
        table_format.missing_columns(Path("t"), held, pa.schema([("b", pa.int64())]))


def test_the_highest_id_of_each_topic_is_how_far_rows_go():
    rows = pa.dataset.dataset(pa.table({"_topic": ["a", "a", "b"], "_id": ["07", "03", "01"]}))
    found = table_format.reached_by_rows(rows).topics
    assert {topic: (place.generation, place.position) for topic, place in found.items()} == {
        "a": (0, "07"),
        "b": (0, "01"),
    }
