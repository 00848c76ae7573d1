"""Tables on disk, through delta-rs."""

from __future__ import annotations

import datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from fairlead_ingest import commit, errors
from fairlead_ingest.commit import Append
from fairlead_ingest.io import delta
from fairlead_ingest.io.files import PartitionedFiles, WrittenFile
from fairlead_ingest.offsets import Offsets, Position

SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
TOPIC = "a/odd name=%"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    delta.ensure(path, SCHEMA)
    return path


def written(table: Path, *ids: str) -> list[WrittenFile]:
    writing = PartitionedFiles(table)
    day = pa.array([datetime.date(2026, 11, 20)] * len(ids), pa.date32())
    writing.add(pa.table({"_id": list(ids), "_topic": [TOPIC] * len(ids), "_date": day}))
    return writing.close()


def decided(table: Path, batch: int, upto: str) -> Append:
    state = delta.state(table, "app", [TOPIC])
    held = state.reached.topics.get(TOPIC, Position.at(1, ""))
    end = Offsets(service="s", topics={TOPIC: Position(g=1, p=upto, fg=1, f=held.p, r=1)})
    found = commit.decide(state, application="app", batch=batch, end=end, counts={})
    assert isinstance(found, Append)
    return found


def test_a_commit_is_rows_batch_turn_and_positions_at_once(table: Path) -> None:
    """And other readers find the rows, odd topic names included."""
    delta.append(table, written(table, "01", "02"), decided(table, 0, "02"))
    state = delta.state(table, "app", [TOPIC])
    assert (state.batch, state.turns, state.reached.topics[TOPIC].p) == (0, {TOPIC: 1}, "02")
    found = pl.scan_delta(str(table)).collect()
    assert found["_topic"].unique().to_list() == [TOPIC]
    assert DeltaTable(str(table)).to_pyarrow_table().num_rows == 2


def test_of_two_commits_at_the_same_moment_one_is_refused(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both looked before either wrote."""
    first, second = written(table, "01"), written(table, "01")
    plan = decided(table, 0, "01")
    other = Append(transactions={**plan.transactions, "app": 0, "other": 0}, metadata=plan.metadata)
    stale = DeltaTable(str(table))
    delta.append(table, first, plan)
    monkeypatch.setattr(delta, "DeltaTable", lambda _: stale)
    with pytest.raises(errors.Stop, match=errors.TABLE_TAKEN):
        delta.append(table, second, other)
    assert DeltaTable(str(table)).to_pyarrow_table().num_rows == 1


def test_an_empty_batch_still_moves_the_positions(table: Path) -> None:
    """All of it was dead letters, say."""
    delta.append(table, [], decided(table, 0, "05"))
    assert delta.state(table, "app", [TOPIC]).reached.topics[TOPIC].p == "05"


def test_positions_are_found_behind_commits_of_others(table: Path) -> None:
    """Somebody tidied up since."""
    delta.append(table, written(table, "01", "02"), decided(table, 0, "02"))
    for _ in range(delta.HISTORY_NEAR + 2):
        DeltaTable(str(table)).delete("_id = 'none'")
        DeltaTable(str(table)).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 7 days"})
    assert delta.state(table, "app", [TOPIC]).reached.topics[TOPIC].p == "02"


def test_a_table_without_our_commits_is_read_for_its_highest_ids(table: Path) -> None:
    """Its log was cut, or someone else copied the rows here."""
    delta.append(table, written(table, "07", "03"), Append(transactions={}, metadata={}))
    for _ in range(3):
        DeltaTable(str(table)).alter.set_table_properties({"delta.checkpointInterval": "100"})
    assert delta.reached(DeltaTable(str(table))) == Offsets(topics={TOPIC: Position.at(0, "07")})


def test_a_new_table_has_reached_nothing(table: Path) -> None:
    """And does not pretend to."""
    assert delta.reached(DeltaTable(str(table))) == Offsets()


def test_columns_are_added_and_types_never_changed(table: Path) -> None:
    """The positions survive the change."""
    delta.append(table, written(table, "01"), decided(table, 0, "01"))
    delta.ensure(table, pa.schema([*SCHEMA, ("temperature", pa.float64())]))
    assert "temperature" in DeltaTable(str(table)).schema().to_json()
    assert delta.state(table, "app", [TOPIC]).reached.topics[TOPIC].p == "01"
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TABLE_UNFIT: .*temperature"):
        delta.ensure(table, pa.schema([*SCHEMA, ("temperature", pa.string())]))


def test_somebody_elses_table_is_left_alone(tmp_path: Path) -> None:
    """Not partitioned as ours are."""
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path / "rows"), pa.table({"_id": ["1"], "_topic": ["t"]}))
    with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT):
        delta.ensure(tmp_path / "rows", pa.schema([("_id", pa.string())]))


def test_gap_rows_are_written_by_the_driver(tmp_path: Path) -> None:
    """They are few."""
    path = delta.beside(tmp_path / "rows", delta.GAPS)
    delta.ensure(path, delta.GAPS_SCHEMA)
    row = {"reason": "expired", "_topic": TOPIC, "_batch": 3, "_date": datetime.date(2026, 11, 20)}
    delta.append_gaps(path, pa.Table.from_pylist([row], schema=delta.GAPS_SCHEMA), Append(transactions={}, metadata={}))
    assert pl.scan_delta(str(path)).collect()["reason"].to_list() == ["expired"]


def test_the_history_of_no_table_is_empty(tmp_path: Path) -> None:
    """A job that has not started yet has a status all the same."""
    assert delta.last_entries(tmp_path / "none", 5) == []
