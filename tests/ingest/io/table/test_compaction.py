"""Files joined or sorted, whatever the format: which are taken together, and what a commit without an answer means."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.table import compaction
from fairlead_ingest.io.table.compaction import Compaction, TablePart
from fairlead_ingest.io.table.files import PartitionedFiles, WrittenFile
from fairlead_ingest.table.commit import Collided

SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
DAY = datetime.date(2026, 11, 20)


class Table:
    """In memory: rows by the path of their file. ``before`` is called once, just before a commit."""

    def __init__(self, *sizes: int) -> None:
        self.files = {f"f{number}": (size, [f"{number}"]) for number, size in enumerate(sizes)}
        self.written: dict[str, list[str]] = {}
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None
        self.commits = 0

    def compaction(self, folder: Path) -> Compaction:
        return Compaction(folder, lambda: Version(self), lambda place: PartitionedFiles(place, is_whole=True))

    def ids(self) -> list[str]:
        return sorted(each for _, ids in self.files.values() for each in ids)


class Version:
    def __init__(self, table: Table) -> None:
        self._table = table
        self.number, self.schema = table.commits, SCHEMA
        self._files = dict(table.files)
        self.parts = [
            TablePart(path=path, topic="a/t", date=str(DAY), size=size, rows=len(ids))
            for path, (size, ids) in self._files.items()
        ]

    def rows(self, paths: Collection[str]) -> ds.Dataset:
        found = [{"_id": each, "_topic": "a/t", "_date": DAY} for path in paths for each in self._files[path][1]]
        return ds.dataset(pa.Table.from_pylist(found, schema=SCHEMA))

    def explained(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def replace(self, removed: Sequence[TablePart], files: Sequence[WrittenFile]) -> None:
        before, self._table.before = self._table.before, lambda: None
        before()
        if self._table.files != self._files:
            raise Collided("another was first")
        ids = [each for part in removed for each in self._files[part.path][1]]
        for part in removed:
            del self._table.files[part.path]
        self._table.files[files[0].path] = (sum(part.size for part in removed), ids)
        self._table.commits += 1
        after, self._table.after = self._table.after, lambda: None
        after()


def test_small_files_are_taken_together_up_to_the_size_and_large_ones_left_alone(tmp_path):
    table = Table(40, 40, 200, 40, 40, 10)
    done = table.compaction(tmp_path).compact(target_bytes=100)
    assert (done["files_removed"], done["files_added"], done["version"]) == (5, 2, 2)
    assert "f2" in table.files and len(table.files) == 3
    assert table.ids() == ["0", "1", "2", "3", "4", "5"]


def test_a_commit_in_between_is_kept_and_the_same_files_are_committed_on_top(tmp_path):
    table = Table(1, 1)

    def other() -> None:
        table.files["new"] = (100, ["new"])

    table.before = other
    assert table.compaction(tmp_path).compact(target_bytes=100)["files_removed"] == 2
    assert table.ids() == ["0", "1", "new"]
    assert len(list(tmp_path.rglob("part-*"))) == 1, "written once"


def test_files_that_others_took_out_meanwhile_are_left_to_them(tmp_path):
    table = Table(1, 1)
    table.before = lambda: table.files.pop("f0") and None
    assert table.compaction(tmp_path).compact(target_bytes=100)["files_removed"] == 0
    assert table.ids() == ["1"]


def test_a_commit_whose_answer_was_lost_is_found_and_not_made_again(tmp_path):
    table = Table(1, 1)

    def lose() -> None:
        raise Collided("no answer", unanswered=errors.Wait(errors.CATALOG_AWAY, "gone"))

    table.after = lose
    assert table.compaction(tmp_path).compact(target_bytes=100)["files_removed"] == 2
    assert (table.commits, table.ids()) == (1, ["0", "1"])


def test_a_store_that_is_away_all_the_time_is_said_and_not_taken_for_others(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "TRIES", 2)
    table = Table(1, 1)

    def away(*_: object) -> None:
        raise Collided("no answer", unanswered=errors.Wait(errors.STORE_AWAY, "gone"))

    monkeypatch.setattr(Version, "replace", away)
    with pytest.raises(errors.Wait, match=errors.STORE_AWAY):
        table.compaction(tmp_path).compact(target_bytes=100)
