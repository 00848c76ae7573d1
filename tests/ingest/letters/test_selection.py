"""Which letters are meant, by every word one can say."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from fairlead_ingest.dead_letters import LetterSelection
from fairlead_ingest.rows.envelope import TIMESTAMP

MOMENTS = [datetime.datetime(2026, 11, 20, hour, tzinfo=datetime.UTC) for hour in (1, 2, 3)]
LETTERS = pa.table(
    {
        "_topic": ["n/a", "n/a", "n/b"],
        "_id": ["01", "02", "03"],
        "_published_at": pa.array(MOMENTS, TIMESTAMP),
        "code": ["misfit", None, "other"],
    }
)
TWO = int(MOMENTS[1].timestamp() * 1000)


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ({}, ["01", "02", "03"]),
        ({"topics": {"n/a"}}, ["01", "02"]),
        ({"ids": {"03", "07"}}, ["03"]),
        ({"since_ms": TWO}, ["02", "03"]),
        ({"until_ms": TWO}, ["01"]),
        ({"codes": {"misfit"}}, ["01"]),
        ({"codes": {"unknown"}}, ["02"]),
        ({"codes": {"misfit", "other"}, "topics": {"n/b"}}, ["03"]),
    ],
)
def test_each_word_narrows(given: dict[str, Any], ids: list[str]) -> None:
    """What an older version wrote has no code, and is asked for as unknown."""
    chosen = LetterSelection(**given)
    assert chosen.with_codes(LETTERS.filter(chosen.condition))["_id"].to_pylist() == ids
