"""Which letters the job is done with, by what the table's log says of its positions."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fairlead_ingest import dead_letters
from fairlead_ingest.source.offsets import Offsets, TopicOffset

LETTERS = pa.table({"_topic": ["a", "a", "a", "b"], "_id": ["01", "05", "09", "01"], "_batch": [0, -1, 1, None]})


@pytest.mark.parametrize(
    ("reached", "expected"),
    [
        ({}, [False, True, False, False]),
        ({"a": TopicOffset.at(1, "05")}, [True, True, False, False]),
        ({"a": TopicOffset.at(1, "04")}, [True, False, False, False]),
        ({"a": TopicOffset.at(0, "04")}, [True, True, False, False]),
        ({"a": TopicOffset.at(2, ""), "b": TopicOffset.at(1, "01")}, [False, False, False, True]),
    ],
)
def test_up_to_the_tables_positions(reached: dict[str, TopicOffset], expected: list[bool]) -> None:
    """Where the log knows none, what a backfill brought belongs to no batch."""
    assert dead_letters.mask(LETTERS, Offsets(topics=reached)).to_pylist() == expected


def test_none_is_none() -> None:
    assert dead_letters.mask(LETTERS.slice(0, 0), Offsets()).to_pylist() == []
