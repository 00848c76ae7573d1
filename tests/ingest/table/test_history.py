"""Which of our commits count, read from histories as engines write them."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit import NewestCounting


def batch(version: int) -> dict[str, Any]:
    metadata = {"reached": Offsets().to_dict(), "batch": version}
    return {"version": version, "timestamp": version * 1000, "operation": "WRITE", "fairlead": metadata}


def by(number: int, operation: str, **parameters: Any) -> dict[str, Any]:
    known = {"operation": operation, "operationParameters": parameters}
    return {"version": number, "timestamp": number * 1000, **known}


def newest(*entries: dict[str, Any]) -> Any:
    found = commit.newest(sorted(entries, key=lambda entry: -entry["version"]))
    return "replaced" if found.is_replaced else None if found.info is None else found.info.batch


HISTORY = [batch(version) for version in range(6)]


def test_what_changes_no_row_of_ours_is_passed_over() -> None:
    """Compaction, deletes, properties, a part that somebody corrected."""
    others = [
        by(6, "OPTIMIZE"), by(7, "DELETE", predicate="a"), by(8, "SET TBLPROPERTIES"), by(9, "VACUUM END"),
        by(10, "WRITE", mode="Append"), by(11, "WRITE", mode="Overwrite", predicate="_date = '2026-11-22'"),
    ]  # fmt: skip
    assert newest(*HISTORY, *others) == 5
    assert newest(*others) is None


@pytest.mark.parametrize(
    "target",
    [
        {"version": "3"},
        {"version": 3},
        {"version": None, "datetime": "3999"},
        {"timestamp": "1970-01-01T00:00:03.5Z", "version": None},
        {"timestamp": "1970-01-01 00:00:03"},
    ],
)
def test_a_restore_takes_back_what_came_after_its_version(target: dict[str, Any]) -> None:
    """By version or by time, as delta-rs and Spark write it."""
    assert newest(*HISTORY, by(6, "RESTORE", **target)) == 3
    assert newest(*HISTORY, by(6, "RESTORE", **target), batch(7)) == 7


def test_a_restore_of_a_restore_brings_back() -> None:
    """Each is read from where the other leads."""
    assert newest(*HISTORY, by(6, "RESTORE", version="1"), by(7, "RESTORE", version="5")) == 5
    assert newest(*HISTORY, by(6, "RESTORE", version="1"), by(7, "OPTIMIZE"), by(8, "RESTORE", version="6")) == 1


@pytest.mark.parametrize(
    "entry",
    [
        by(6, "WRITE", mode="Overwrite"),
        by(6, "CREATE OR REPLACE TABLE AS SELECT"),
        by(6, "CLONE", source="t"),
        by(6, "RESTORE", timestamp="yesterday"),
    ],
)
def test_content_that_others_put_there_says_nothing_of_ours(entry: dict[str, Any]) -> None:
    """Nor does what lies below it."""
    assert newest(*HISTORY, entry) == "replaced"
    assert newest(*HISTORY, entry, batch(7)) == 7


def test_no_history_is_no_answer() -> None:
    """A new table."""
    assert commit.newest([]) == NewestCounting()
