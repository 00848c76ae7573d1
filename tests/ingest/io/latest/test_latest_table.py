"""The latest table itself; how it is kept is in test_refresh.py."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.support.tables.latest_rows import SCHEMA, Row, append

from fairlead_ingest import errors
from fairlead_ingest.io.latest import latest_table
from fairlead_ingest.io.latest.refresh import refresh
from fairlead_ingest.latest.definition import LatestDefinition

BY_NODE = LatestDefinition(key=("node",))


@pytest.fixture
def latest(tmp_path: Path) -> Path:
    append(tmp_path / "rows", [Row(node="a", number=1)])
    refresh(tmp_path / "rows", tmp_path / "latest", BY_NODE)
    return tmp_path / "latest"


def test_older_files_go_and_those_of_killed_jobs_with_them(latest, tmp_path):
    append(tmp_path / "rows", [Row(node="a", number=2)])
    (old,) = latest.rglob("*.parquet")
    refresh(tmp_path / "rows", latest, BY_NODE)
    orphan = old.with_name("part-killed.zstd.parquet")
    orphan.write_bytes(b"half")
    assert latest_table.vacuum(latest, 1) == 0
    long_ago = time.time() - 7200
    os.utime(orphan, (long_ago, long_ago))
    assert latest_table.vacuum(latest, 1) == 1
    assert DeltaTable(str(latest)).to_pyarrow_table()["_id"].to_pylist() == [Row(number=2).id]
    assert latest_table.vacuum(tmp_path / "none", 1) == 0


def test_a_column_that_changed_its_type_is_refused_with_the_remedy(latest):
    other = [pa.field("value", pa.string()) if field.name == "value" else field for field in SCHEMA]
    with pytest.raises(errors.Stop, match=f"{errors.TABLE_UNFIT}: .*value.*: delete this table"):
        latest_table.ensure(latest, BY_NODE.kept(pa.schema(other)))


def test_its_commit_is_on_disk_when_it_returns(latest, tmp_path, monkeypatch):
    append(tmp_path / "rows", [Row(node="a", number=2)])
    synced: list[str] = []
    real = os.fsync

    def remember(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", remember)
    refresh(tmp_path / "rows", latest, BY_NODE)
    assert synced[0].startswith("part-")
    assert synced[1:] == ["_bucket=0", "latest", f"{2:020d}.json", "_delta_log"]
