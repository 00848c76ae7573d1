"""Open tables: looked at anew in a folder, kept in a store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tables.delta_rows import decided, written

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta
from fairlead_ingest.io.table.delta import delta_table
from fairlead_ingest.table.store_path import parse


def test_a_folder_is_looked_at_anew(table: Path, tmp_path: Path) -> None:
    before = delta_table.open_table(table)
    assert before is not None
    delta.append(table, written(table, "01"), decided(table, 0, "01"))
    after = delta_table.open_table(table)
    assert after is not None
    assert (before.version(), after.version()) == (0, 1)
    assert delta_table.open_table(tmp_path / "none") is None
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TABLE_UNFIT: .*no table"):
        delta_table.when_decided(tmp_path / "none")


def test_what_a_store_answers_is_a_sentence_of_ours_and_a_folders_error_its_own(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^full$"), delta_table.explained(tmp_path):
        raise OSError("full")
    answered = pytest.raises(errors.Wait, match=r"FAIRLEAD_STORE_AWAY: s3://tables/rows .*SlowDown")
    with answered, delta_table.explained(parse("s3://tables/rows")):
        raise OSError("<Code>SlowDown</Code>")
