"""What the log says is in a table."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable
from tests.support.delta_rows import TOPIC, decided, written

from fairlead_ingest.io.table import delta
from fairlead_ingest.table.commit import Append


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
