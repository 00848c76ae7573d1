"""Compaction and vacuum on real tables."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta, maintenance
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table.commit import Append
from fairlead_ingest.table.commit_info import CommitInfo

SCHEMA = pa.schema([("_id", pa.string()), ("node", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
INFO = CommitInfo(reached=Offsets(topics={"a/t": TopicOffset.at(1, "0f")}))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    delta.ensure(path, SCHEMA)
    for number in range(4):
        writing = delta.writing(path)
        day = pa.array([datetime.date(2026, 11, 20 + number % 2)], pa.date32())
        writing.add(pa.table({"_id": [str(number)], "node": ["n"], "_topic": ["a/t"], "_date": day}))
        delta.append(path, writing.close(), Append(transactions={"app": number}, info=INFO))
    return path


def test_small_files_become_one_for_each_partition(table):
    steps: list[Any] = []
    done = maintenance.delta_compaction(table).compact(target_bytes=maintenance.TARGET_BYTES, progress=steps.append)
    assert (done["files_removed"], done["files_added"]) == (4, 2)
    assert [(step.topic, step.date, len(step.parts)) for step in steps] == [
        ("a/t", "2026-11-20", 2),
        ("a/t", "2026-11-21", 2),
    ]
    assert DeltaTable(str(table)).to_pyarrow_table().num_rows == 4
    state = delta.state(table, "app")
    assert (state.batch, state.reached.topics["a/t"].position) == (3, "0f")


def test_rows_can_be_sorted_by_a_column(table):
    done = maintenance.delta_compaction(table).compact(target_bytes=maintenance.TARGET_BYTES, sort_by=["node"])
    assert done["files_added"] == 2
    assert DeltaTable(str(table)).to_pyarrow_table().num_rows == 4


def test_a_retention_shorter_than_a_batch_is_refused(table):
    with pytest.raises(errors.Stop, match=errors.BAD_OPTION):
        maintenance.vacuum(delta, table, retention_hours=0)


def test_no_table_is_said_so(tmp_path):
    with pytest.raises(errors.Stop, match=f"{tmp_path}/none: there is no table"):
        maintenance.open_table(tmp_path / "none")
    with pytest.raises(errors.Stop, match=f"{tmp_path}/none: there is no table"):
        maintenance.vacuum(delta, tmp_path / "none")
