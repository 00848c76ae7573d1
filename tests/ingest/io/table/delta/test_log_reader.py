"""How far a Delta table has got according to its log, in a folder and in a real store."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.support.tables.delta_rows import TOPIC, decided, written

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta, object_store, tables
from fairlead_ingest.io.table.delta import log_reader
from fairlead_ingest.io.table.delta.log_reader import HISTORY_NEAR
from fairlead_ingest.source.offsets import Offsets, TopicOffset


@pytest.mark.slow
def test_positions_are_found_behind_commits_of_others(table):
    delta.append(table, written(table, "01", "02"), decided(table, 0, "02"))
    for _ in range(HISTORY_NEAR + 2):
        DeltaTable(str(table)).delete("_id = 'none'")
        DeltaTable(str(table)).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 7 days"})
    assert delta.state(table, "app").reached.topics[TOPIC].position == "02"


def test_a_table_without_our_commits_is_read_for_its_highest_ids(table):
    """Its log was cut, or someone else copied the rows here."""
    delta.append(table, written(table, "07", "03"), tables.UNNUMBERED)
    for _ in range(3):
        DeltaTable(str(table)).alter.set_table_properties({"delta.checkpointInterval": "100"})
    assert delta.reached(table) == Offsets(topics={TOPIC: TopicOffset.at(0, "07")})


SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])


@pytest.mark.process
def test_entries_are_those_of_delta_rs_newest_first_and_end_where_the_log_was_cut(store):
    table = store.place("log/rows")
    for more in ((), ("a",), ("a", "b")):
        delta.ensure(table, pa.schema([*SCHEMA, *((name, pa.string()) for name in more)]))
    opened = DeltaTable(str(table), storage_options=object_store.storage_options(table.storage))
    table_id = str(opened.metadata().id)
    ours = list(log_reader.store_entries(table, table_id, opened.version()))
    theirs = opened.history()
    keys = ("version", "timestamp", "operation", "operationParameters")
    assert [[each.get(key) for key in keys] for each in ours] == [[each.get(key) for key in keys] for each in theirs]
    # Entries read once are remembered; a table made anew in the same place is another one.
    (store.content / table.key / log_reader.LOG / f"{0:0{log_reader.DIGITS}}.json").unlink()
    assert len(list(log_reader.store_entries(table, table_id, 2))) == 3
    assert [each["version"] for each in log_reader.store_entries(table, "another", 2)] == [2, 1]


@pytest.mark.process
def test_an_entry_that_is_none_stops_with_its_name(store):
    table = store.place("garbled/rows")
    delta.ensure(table, SCHEMA)
    (store.content / table.key / log_reader.LOG / f"{0:0{log_reader.DIGITS}}.json").write_text("{oops")
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TABLE_UNFIT: .*not an entry of a Delta log"):
        list(log_reader.store_entries(table, "any", 0))
