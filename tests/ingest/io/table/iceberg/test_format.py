"""Iceberg tables of ours beside what others do to them, and commits whose answer was lost."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from fairlead_ingest import errors
from fairlead_ingest.table.commit import Collided


def test_a_commit_whose_answer_was_lost_is_found_in_the_table(table, monkeypatch):
    """Whatever the library makes of it: it may stand, so the table is asked, and the batch is in it once."""
    commit_table = SqlCatalog.commit_table

    def lose(self: SqlCatalog, *arguments: Any) -> Any:
        commit_table(self, *arguments)
        raise OSError("connection reset")

    monkeypatch.setattr(SqlCatalog, "commit_table", lose)
    with pytest.raises(Collided) as lost:
        table.commit(0, 1)
    assert lost.value.unanswered is not None and lost.value.unanswered.code == errors.CATALOG_AWAY
    monkeypatch.undo()
    assert table.commit(0, 1) is False
    assert table.numbers() == [1]


def test_a_commit_that_never_arrived_is_made_again(table, monkeypatch):
    def fail(*_: Any) -> Any:
        raise OSError("connection refused")

    monkeypatch.setattr(SqlCatalog, "commit_table", fail)
    with pytest.raises(Collided):
        table.commit(0, 1)
    monkeypatch.undo()
    assert table.commit(0, 1) is True
    assert table.numbers() == [1]
