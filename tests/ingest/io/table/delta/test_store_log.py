"""The log of a table in a real store, entry by entry, against what delta-rs itself says of it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.support.tables.object_store import ObjectStore

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta, object_store
from fairlead_ingest.io.table.delta import log_reader

SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.mark.process
def test_entries_are_those_of_delta_rs_newest_first_and_end_where_the_log_was_cut(store: ObjectStore) -> None:
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
def test_an_entry_that_is_none_stops_with_its_name(store: ObjectStore) -> None:
    table = store.place("garbled/rows")
    delta.ensure(table, SCHEMA)
    (store.content / table.key / log_reader.LOG / f"{0:0{log_reader.DIGITS}}.json").write_text("{oops")
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TABLE_UNFIT: .*no entry of a Delta log"):
        list(log_reader.store_entries(table, "any", 0))
