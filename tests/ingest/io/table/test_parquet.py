"""What is plain Parquet's own; the rest is in tests/conformance/test_table.py."""

from __future__ import annotations

import datetime
import errno
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from fairlead_ingest import errors
from fairlead_ingest.io.table import parquet, tables
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit import Append, Collided

SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
DAYS = (datetime.date(2026, 11, 20), datetime.date(2026, 11, 21))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    parquet.ensure(path, SCHEMA)
    return path


def written(table: Path, *ids: str) -> list[WrittenFile]:
    """Two files a batch, so that it can be half moved."""
    writing = parquet.writing(table)
    for day in DAYS:
        writing.add(pa.table({"_id": list(ids), "_topic": ["a/t"] * len(ids), "_date": [day] * len(ids)}))
    return writing.close()


def decided(table: Path, batch: int, upto: str) -> Append:
    state = parquet.state(table, "app")
    held = state.reached.topics.get("a/t", TopicOffset.at(1, ""))
    end = Offsets(
        service="s",
        topics={
            "a/t": TopicOffset(generation=1, position=upto, start_generation=1, start_position=held.position, rows=1)
        },
    )
    found = commit.decide(state, application="app", batch=batch, end=end)
    assert isinstance(found, Append)
    return found


class Killed(BaseException):
    """Where a process would have ended."""


def test_what_a_kill_left_half_moved_is_moved_by_the_next_writer(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit stood; its batch is not taken again."""
    plan, files = decided(table, 0, "01"), written(table, "01")
    rename = os.rename
    moved: list[str] = []

    def once(source: Path, target: Path) -> None:
        if moved:
            raise Killed
        moved.append(target.name)
        rename(source, target)

    monkeypatch.setattr(os, "rename", once)
    with pytest.raises(Killed):
        parquet.append(table, files, plan)
    monkeypatch.undo()
    assert (len(parquet.files(table)), parquet.version(table)) == (1, 0)
    assert parquet.state(table, "app").batch == 0
    assert parquet.version(table) == 1
    assert len(parquet.files(table)) == 2
    assert list((table / "_pending").iterdir()) == []


def test_a_kill_before_the_commit_leaves_nothing_of_it(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files wait for vacuum, and so does a draft of its manifest."""
    plan, files = decided(table, 0, "01"), written(table, "01")

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as kill:
        kill.setattr(os, "link", killed)
        kill.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(Killed):
            parquet.append(table, files, plan)
    assert parquet.state(table, "app").batch == -1
    assert parquet.files(table) == []
    hours_ago = time.time() - 3 * 3600
    for path in (*(table / "_pending").iterdir(), *(table / "_commits").glob(".*")):
        os.utime(path, (hours_ago, hours_ago))
    assert len(parquet.vacuum(table, retention_hours=2, dry_run=False)) == 3
    parquet.append(table, written(table, "01"), decided(table, 0, "01"))
    assert parquet.state(table, "app").batch == 0


def test_of_two_commits_at_the_same_moment_one_collides(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both read the same newest manifest; the number is taken once."""
    newest = parquet._required(table)
    plan = decided(table, 0, "01")
    parquet.append(table, written(table, "01"), plan)
    monkeypatch.setattr(parquet, "_required", lambda _: newest)
    with pytest.raises(Collided):
        parquet.append(table, written(table, "01"), plan)
    assert len(parquet.files(table)) == 2


def test_waiting_files_of_a_standing_commit_are_no_orphans(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However old they are: the next writer moves them."""

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as kill:
        kill.setattr(os, "rename", killed)
        with pytest.raises(Killed):
            parquet.append(table, written(table, "01"), decided(table, 0, "01"))
    for path in (table / "_pending").iterdir():
        os.utime(path, (0, 0))
    assert parquet.vacuum(table, retention_hours=1, dry_run=False) == []
    parquet.state(table, "app")
    assert len(parquet.files(table)) == 2


def test_old_manifests_are_tidied_away_and_the_sums_stay(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest says everything."""
    monkeypatch.setattr(parquet, "MANIFESTS_MAX", 3)
    monkeypatch.setattr(parquet, "TIDY_EVERY", 2)
    for batch in range(10):
        parquet.append(table, written(table, f"{batch:02}"), decided(table, batch, f"{batch:02}"))
    assert len(list((table / "_commits").iterdir())) == 3
    found = parquet.size(table)
    assert found is not None and (found.rows, found.files) == (20, 20)
    assert len(parquet.last_entries(table, 50)) == 3


def test_a_full_disk_is_a_reason_to_wait(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no draft stays behind; any other error is not dressed up."""
    plan, files = decided(table, 0, "01"), written(table, "01")
    number = errno.ENOSPC

    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(errors.Wait, match=errors.DISK_FULL):
        parquet.append(table, files, plan)
    assert list((table / "_commits").glob(".*")) == []
    number = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        parquet.append(table, files, plan)


def test_a_folder_of_other_files_is_left_alone_and_a_half_made_table_is_finished(tmp_path: Path) -> None:
    """A kill between making the folder and the first manifest costs nothing."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").touch()
    with pytest.raises(errors.Stop, match="files that are no table"):
        parquet.ensure(tmp_path / "photos", SCHEMA)
    (tmp_path / "half" / "_commits").mkdir(parents=True)
    parquet.ensure(tmp_path / "half", SCHEMA)
    assert parquet.size(tmp_path / "half") is not None


@pytest.mark.parametrize("text", ["", "{", '{"v": 2, "number": 0, "timestamp": 0, "columns": {}}'])
def test_a_damaged_manifest_stops_with_its_path(table: Path, text: str) -> None:
    """Guessing on would repeat rows."""
    path = table / "_commits" / "00000000000000000000.json"
    path.write_text(text)
    with pytest.raises(errors.Stop, match=f"{errors.TABLE_UNFIT}: {path}"):
        parquet.state(table, "app")


def test_spark_reads_the_folder_by_its_name(spark: SparkSession, table: Path) -> None:
    """What waits and the log are hidden from it; partitions are its columns."""
    parquet.append(table, written(table, "01", "02"), decided(table, 0, "02"))
    written(table, "03")
    rows = spark.read.parquet(str(table)).where("_topic = 'a/t'")
    assert sorted(row["_id"] for row in rows.collect()) == ["01", "01", "02", "02"]
    assert tables.count(parquet, table) == 4
