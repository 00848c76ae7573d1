"""Compaction of Delta tables beside others: every row is there once, in whichever order they commit."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.support.tables.table_formats import append_rows

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta, maintenance
from fairlead_ingest.io.table.delta import log_writer
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.table.store_path import Place

SCHEMA = pa.schema(
    [
        ("_id", pa.string()),
        ("n", pa.int64()),
        ("l", pa.list_(pa.string())),
        ("_topic", pa.string()),
        ("_date", pa.date32()),
    ]
)
TARGET = 128 * 1024 * 1024


def append(table: Path, *numbers: int) -> None:
    delta.ensure(table, SCHEMA)
    row = {"l": ["x"], "_topic": "plant/a b=%", "_date": datetime.date(2026, 11, 20)}
    append_rows(delta, table, [{**row, "_id": str(number), "n": number} for number in numbers], SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for number in range(4):
        append(tmp_path / "rows", number)
    return tmp_path / "rows"


def numbers(table: Path) -> list[int]:
    found: list[int] = DeltaTable(str(table)).to_pyarrow_table(columns=["n"])["n"].to_pylist()
    return found


def beside(monkeypatch: pytest.MonkeyPatch, others: list[object]) -> None:
    """``others`` are called, one at each commit of a compaction, just before it."""
    real = log_writer.replace

    def replace(place: Place, target: DeltaTable, gone: list[tuple[str, int]], files: list[WrittenFile]) -> None:
        if others:
            others.pop(0)()  # type: ignore[operator]
        real(place, target, gone, files)

    monkeypatch.setattr(log_writer, "replace", replace)


@pytest.mark.slow
@pytest.mark.parametrize("sort_by", [(), ("n",)])
def test_of_two_at_the_same_moment_one_stands(table, monkeypatch, sort_by):
    other = maintenance.delta_compaction(table)
    beside(monkeypatch, [lambda: other.compact(target_bytes=TARGET)])
    done = maintenance.delta_compaction(table).compact(target_bytes=TARGET, sort_by=sort_by)
    assert (done["files_removed"], sorted(numbers(table))) == (0, [0, 1, 2, 3])
    append(table, 4)
    beside(monkeypatch, [lambda: DeltaTable(str(table)).optimize.compact()])
    maintenance.delta_compaction(table).compact(target_bytes=TARGET, sort_by=sort_by)
    assert sorted(numbers(table)) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_job_that_commits_meanwhile_keeps_its_rows(table, monkeypatch):
    beside(monkeypatch, [lambda: append(table, 4), lambda: append(table, 5)])
    done = maintenance.delta_compaction(table).compact(target_bytes=TARGET)
    assert (done["files_removed"], done["files_added"]) == (4, 1)
    assert sorted(numbers(table)) == [0, 1, 2, 3, 4, 5]
    assert len(DeltaTable(str(table)).file_uris()) == 3


def test_rows_that_are_deleted_meanwhile_stay_deleted(table, monkeypatch):
    beside(monkeypatch, [lambda: DeltaTable(str(table)).delete("n = 2")])
    maintenance.delta_compaction(table).compact(target_bytes=TARGET)
    assert sorted(numbers(table)) == [0, 1, 3]


def test_a_table_that_others_write_all_the_time_is_given_up(table, monkeypatch):
    monkeypatch.setattr("fairlead_ingest.io.table.compaction.TRIES", 2)
    beside(monkeypatch, [lambda: append(table, 4), lambda: append(table, 5)])
    with pytest.raises(errors.Stop, match=errors.TABLE_TAKEN):
        maintenance.delta_compaction(table).compact(target_bytes=TARGET)
    assert sorted(numbers(table)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_sorted_rows_lie_in_files_of_the_size_asked_for(tmp_path):
    """One file ends where the next begins; what cannot be sorted by is refused."""
    table = tmp_path / "rows"
    for first in range(4):
        append(table, *range(first, 400, 4))
    size = sum(part.size for part in maintenance.delta_compaction(table).partitions()[0].parts)
    done = maintenance.delta_compaction(table).compact(target_bytes=size // 2 + 1, sort_by=["n"])
    assert (done["files_removed"], done["files_added"]) == (4, 2)
    first, second = delta.open_table(table).to_pyarrow_dataset().get_fragments()  # type: ignore[union-attr]
    halves = sorted(sorted(each.to_table(columns=["n"])["n"].to_pylist()) for each in (first, second))
    assert halves == [list(range(200)), list(range(200, 400))]
    with pytest.raises(errors.Stop, match="column l is"):
        maintenance.delta_compaction(table).compact(target_bytes=TARGET, sort_by=["l"])
