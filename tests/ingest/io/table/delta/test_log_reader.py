"""How far a table goes, also where the newest commits of its log are not ours."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable
from tests.support.tables.delta_rows import TOPIC, decided, written

from fairlead_ingest.io.table import delta, tables
from fairlead_ingest.io.table.delta.log_reader import HISTORY_NEAR
from fairlead_ingest.source.offsets import Offsets, TopicOffset


def test_positions_are_found_behind_commits_of_others(table: Path) -> None:
    """Somebody tidied up since."""
    delta.append(table, written(table, "01", "02"), decided(table, 0, "02"))
    for _ in range(HISTORY_NEAR + 2):
        DeltaTable(str(table)).delete("_id = 'none'")
        DeltaTable(str(table)).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 7 days"})
    assert delta.state(table, "app").reached.topics[TOPIC].position == "02"


def test_a_table_without_our_commits_is_read_for_its_highest_ids(table: Path) -> None:
    """Its log was cut, or someone else copied the rows here."""
    delta.append(table, written(table, "07", "03"), tables.UNNUMBERED)
    for _ in range(3):
        DeltaTable(str(table)).alter.set_table_properties({"delta.checkpointInterval": "100"})
    assert delta.reached(table) == Offsets(topics={TOPIC: TopicOffset.at(0, "07")})
