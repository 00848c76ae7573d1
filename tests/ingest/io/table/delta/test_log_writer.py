"""What is Delta's own of a commit; the rest is in tests/conformance/test_table.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.support.tables.delta_rows import decided, written

from fairlead_ingest.io.table import delta
from fairlead_ingest.io.table.delta import delta_table
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit import Append, Collided


def test_of_two_commits_at_the_same_moment_one_collides(table, monkeypatch):
    """Both looked, and looked again just before they wrote: the log itself refuses the second."""
    first, second = written(table, "01"), written(table, "01")
    plan = decided(table, 0, "01")
    other = Append(transactions={commit.COMMIT_SEQUENCE: 1, "other": 0}, info=plan.info)
    stale = DeltaTable(str(table))
    delta.append(table, first, plan)
    monkeypatch.setattr(delta_table, "DeltaTable", lambda _: stale)
    with pytest.raises(Collided):
        delta.append(table, second, other)
    assert DeltaTable(str(table)).to_pyarrow_table().num_rows == 1


def test_a_commit_is_on_disk_before_anybody_hears_of_it(table, monkeypatch):
    synced: list[str] = []
    real = os.fsync

    def remember(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", remember)
    (file,) = written(table, "01")
    delta.append(table, [file], decided(table, 0, "01"))
    assert synced == [Path(file.path).name, "_date=2026-11-20", "00000000000000000001.json", "_delta_log"]
