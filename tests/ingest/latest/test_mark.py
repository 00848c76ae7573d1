"""What a commit records, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_ingest.latest import mark as marks
from fairlead_ingest.latest.mark import ChangeEntry, Current, FoldAfter, Mark, Rebuild

MARK = Mark(source="s", version=7, definition="d", stamp="cafe", keys=3, deleted=1, buckets=2, sequence=5)


def entry(operation: str, **info: Any) -> ChangeEntry:
    return ChangeEntry(info={"operation": operation, "timestamp": 12, **info})


def test_a_mark_is_found_below_what_changes_no_rows() -> None:
    """And is what was written."""
    ours = entry("WRITE", **MARK.metadata)
    found = marks.newest([entry("VACUUM END"), entry("OPTIMIZE"), entry("ADD COLUMN"), ours])
    assert found is not None
    assert (found.mark, found.timestamp_ms) == (MARK, 12)


@pytest.mark.parametrize("operation", ["DELETE", "UPDATE", "MERGE", "RESTORE", "WRITE", "", "REPLACE TABLE"])
def test_a_table_that_others_changed_has_none(operation: str) -> None:
    """What they put there would stay."""
    assert marks.newest([entry(operation), entry("WRITE", **MARK.metadata)]) is None


def test_a_mark_that_cannot_be_read_is_none() -> None:
    """Of a version that says something else, say; nor is an empty log."""
    assert marks.newest([entry("WRITE", **{marks.METADATA_KEY: {"version": "x"}})]) is None
    assert marks.newest([]) is None


@pytest.mark.parametrize(
    ("mark", "now", "decided"),
    [
        (MARK, {}, FoldAfter(after=7)),
        (MARK, {"stamp": None}, FoldAfter(after=7)),
        (MARK, {"version": 7}, Current()),
        (MARK, {"version": 6, "stamp": None}, "brought back from a copy"),
        (MARK, {"version": 7, "stamp": "beef"}, "brought back from a copy"),
        (MARK, {"source": "t"}, "another one"),
        (MARK, {"definition": "e"}, "settings"),
        (None, {}, "new"),
    ],
)
def test_what_is_to_be_done(mark: Mark | None, now: dict[str, Any], decided: object) -> None:
    """All is read again where the mark says nothing of the rows that are there."""
    found = marks.decide(mark, **{"source": "s", "version": 9, "stamp": "cafe", "definition": "d", **now})
    if isinstance(decided, str):
        assert isinstance(found, Rebuild)
        assert decided in found.reason
    else:
        assert found == decided
