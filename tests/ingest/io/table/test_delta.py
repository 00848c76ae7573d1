"""What is Delta's own; the rest is in tests/conformance/test_table.py."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta, tables
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit import Append, Collided

SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
TOPIC = "a/odd name=%"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    delta.ensure(path, SCHEMA)
    return path


def written(table: Path, *ids: str) -> list[WrittenFile]:
    writing = delta.writing(table)
    day = pa.array([datetime.date(2026, 11, 20)] * len(ids), pa.date32())
    writing.add(pa.table({"_id": list(ids), "_topic": [TOPIC] * len(ids), "_date": day}))
    return writing.close()


def decided(table: Path, batch: int, upto: str) -> Append:
    state = delta.state(table, "app")
    held = state.reached.topics.get(TOPIC, TopicOffset.at(1, ""))
    end = Offsets(
        service="s",
        topics={
            TOPIC: TopicOffset(generation=1, position=upto, start_generation=1, start_position=held.position, rows=1)
        },
    )
    found = commit.decide(state, application="app", batch=batch, end=end)
    assert isinstance(found, Append)
    return found


def test_of_two_commits_at_the_same_moment_one_collides(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both looked, and looked again just before they wrote: the log itself refuses the second."""
    first, second = written(table, "01"), written(table, "01")
    plan = decided(table, 0, "01")
    other = Append(transactions={commit.COMMIT_SEQUENCE: 1, "other": 0}, info=plan.info)
    stale = DeltaTable(str(table))
    delta.append(table, first, plan)
    monkeypatch.setattr(delta, "DeltaTable", lambda _: stale)
    with pytest.raises(Collided):
        delta.append(table, second, other)
    assert DeltaTable(str(table)).to_pyarrow_table().num_rows == 1


def test_positions_are_found_behind_commits_of_others(table: Path) -> None:
    """Somebody tidied up since."""
    delta.append(table, written(table, "01", "02"), decided(table, 0, "02"))
    for _ in range(delta.HISTORY_NEAR + 2):
        DeltaTable(str(table)).delete("_id = 'none'")
        DeltaTable(str(table)).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 7 days"})
    assert delta.state(table, "app").reached.topics[TOPIC].position == "02"


def test_a_table_without_our_commits_is_read_for_its_highest_ids(table: Path) -> None:
    """Its log was cut, or someone else copied the rows here."""
    delta.append(table, written(table, "07", "03"), tables.UNNUMBERED)
    for _ in range(3):
        DeltaTable(str(table)).alter.set_table_properties({"delta.checkpointInterval": "100"})
    assert delta.reached(table) == Offsets(topics={TOPIC: TopicOffset.at(0, "07")})


def test_the_table_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """Not partitioned as ours are."""
    write_deltalake(str(tmp_path / "rows"), pa.table({"_id": ["1"], "_topic": ["t"]}))
    with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT):
        delta.ensure(tmp_path / "rows", pa.schema([("_id", pa.string())]))


def test_a_commit_is_on_disk_before_anybody_hears_of_it(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of its files before the commit, the log and its folder after."""
    synced: list[str] = []
    real = os.fsync

    def remember(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", remember)
    (file,) = written(table, "01")
    delta.append(table, [file], decided(table, 0, "01"))
    assert synced == [Path(file.path).name, "_date=2026-11-20", "00000000000000000001.json", "_delta_log"]


def test_the_highest_id_of_a_topic_is_known_without_reading_rows(table: Path, tmp_path: Path) -> None:
    """Also where the positions say less, after a RESTORE and a backfill, and after files were joined."""
    assert delta.highest_ids(tmp_path / "none") == delta.highest_ids(table) == {}
    delta.append(table, written(table, "01", "03"), decided(table, 0, "03"))
    delta.append(table, written(table, "02", "04"), Append())
    assert delta.highest_ids(table) == {TOPIC: "04"}
    DeltaTable(str(table)).optimize.compact()
    assert delta.highest_ids(table) == {TOPIC: "04"}
    DeltaTable(str(table)).restore(1)
    assert delta.highest_ids(table) == {TOPIC: "03"}
