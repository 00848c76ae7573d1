"""What our commits say of themselves, beside what others do to the table."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.tables.iceberg_table import TOPIC

from fairlead_ingest import errors


def test_a_table_that_others_rolled_back_is_known_by_its_rows(table):
    for batch in range(3):
        table.commit(batch, batch + 1)
    others = table.opened()
    others.manage_snapshots().rollback_to_snapshot(others.snapshots()[0].snapshot_id).commit()
    state = table.format.state(table.place, "app")
    assert (state.reached.topics[TOPIC].position, state.is_cut) == ("0001", False)
    with pytest.raises(errors.Stop, match=errors.TABLE_BEHIND):
        from fairlead_ingest.source.offsets import Offsets, TopicOffset
        from fairlead_ingest.table import commit

        commit.check_goes_on(state, Offsets(service="s", topics={TOPIC: TopicOffset.at(1, "0003")}))
    # A new checkpoint goes on from the rows.
    assert table.commit(0, 2, application="new") is True
    assert table.numbers() == [1, 2]
    assert table.format.state(table.place, "new").reached.topics[TOPIC].position == "0002"


@pytest.mark.slow
def test_commits_of_others_change_no_position(table):
    """Another engine deletes a day or adds rows: what our newest commit left counts on."""
    table.commit(0, 1, 2)
    others = table.opened()
    others.append(pa.Table.from_pylist([{"_id": "0009", "_topic": "b/t"}], schema=others.schema().as_arrow()))
    state = table.format.state(table.place, "app")
    assert (state.batch, state.reached.topics[TOPIC].position) == (0, "0002")
    assert table.commit(1, 3) is True
    assert table.numbers() == [1, 2, 3, 9]
    others = table.opened()
    others.delete("_id = '0001'")
    assert table.numbers() == [2, 3, 9]
    assert table.commit(2, 4) is True
    assert table.format.reached(table.place).topics[TOPIC].position == "0004"


def test_versions_that_others_let_expire_leave_the_rows_to_say_how_far_the_table_goes(table):
    """Our newest commit among them: its batch is known still, its positions may be of a line that is gone."""
    table.commit(0, 1)
    others = table.opened()
    others.append(pa.Table.from_pylist([{"_id": "0009", "_topic": "b/t"}], schema=others.schema().as_arrow()))
    others = table.opened()
    others.maintenance.expire_snapshots().by_id(others.snapshots()[0].snapshot_id).commit()
    state = table.format.state(table.place, "app")
    assert (state.batch, state.is_cut, state.reached.topics[TOPIC].position) == (0, True, "0001")
    assert table.commit(0, 1) is False, "a batch of that number is in it"


def test_positions_are_once_in_the_table_and_counts_in_each_summary(table):
    """Else hundreds of topics would be in each of a hundred remembered versions, and all of it in each commit."""
    for batch in range(3):
        table.commit(batch, batch + 1)
    opened = table.opened()
    assert opened.properties["fairlead.newest"].count('"a/t"') == 1
    assert all(TOPIC not in str(each.summary["fairlead"]) for each in opened.snapshots() if each.summary)
    entries = table.format.last_entries(table.place, 10)
    assert [entry.version for entry in entries] == [3, 2, 1]
    assert [entry.info.batch for entry in entries if entry.info] == [2, 1, 0]
    assert entries[0].info is not None and entries[0].info.reached.topics[TOPIC].position == "0003"
