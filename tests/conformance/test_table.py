"""Every table format, in folders and in an object store: what a sink and the tools beside it rely on."""

from __future__ import annotations

import datetime
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.postgresql import PostgreSQL
from tests.support.tables.table_formats import FORMATS, format_of

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store, tables
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.iceberg.format import IcebergFormat
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit import Append, Collided
from fairlead_ingest.table.commit_info import BatchCounts
from fairlead_ingest.table.store_path import Place

SCHEMA = pa.schema(
    [("_id", pa.string()), ("_published_at", TIMESTAMP), ("_topic", pa.string()), ("_date", pa.date32())]
)
TOPIC = "a/odd name=%"
NOW = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)


IN_STORE = "delta in an object store"
ICEBERG_IN_STORE = "iceberg in an object store"
IN_POSTGRESQL = "iceberg by a catalog in PostgreSQL"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQL]:
    with PostgreSQL() as running:
        yield running


@pytest.fixture(
    params=[
        *FORMATS,
        *(pytest.param(name, marks=pytest.mark.process) for name in (IN_STORE, ICEBERG_IN_STORE)),
        pytest.param(IN_POSTGRESQL, marks=(pytest.mark.process, pytest.mark.verify)),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table_format(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> TableFormat:
    if kind == IN_POSTGRESQL:
        database: PostgreSQL = request.getfixturevalue("postgresql")
        return tables.of("iceberg", database.catalog(namespace=uuid.uuid4().hex))
    return format_of(kind.split()[0], tmp_path)


@pytest.fixture
def table(kind: str, table_format: TableFormat, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    found: Place = tmp_path / "rows"
    if kind in (IN_STORE, ICEBERG_IN_STORE):
        found = request.getfixturevalue("store").place(f"{uuid.uuid4().hex}/rows")
    table_format.ensure(found, SCHEMA)
    return found


@pytest.fixture
def folder(table: Place, request: pytest.FixtureRequest) -> Path:
    """Where the table's files can be looked at: the store keeps a folder, too."""
    if isinstance(table, Path):
        return table
    running: ObjectStore = request.getfixturevalue("store")
    return running.content / table.key


def written(
    table_format: TableFormat, table: Place, *ids: str, topic: str = TOPIC, **more: object
) -> list[WrittenFile]:
    writing = table_format.writing(table)
    values = {"_topic": topic, "_date": NOW.date(), "_published_at": NOW, **more}
    fields = [*SCHEMA, *(pa.field(name, pa.infer_type([value])) for name, value in more.items())]
    writing.add(pa.Table.from_pylist([{**values, "_id": each} for each in ids], schema=pa.schema(fields)))
    return writing.close()


def decided(table_format: TableFormat, table: Place, batch: int, upto: str, application: str = "app") -> Append:
    state = table_format.state(table, application)
    held = state.reached.topics.get(TOPIC, TopicOffset.at(1, ""))
    end = Offsets(
        service="s",
        topics={
            TOPIC: TopicOffset(generation=1, position=upto, start_generation=1, start_position=held.position, rows=1)
        },
    )
    found = commit.decide(state, application=application, batch=batch, end=end, counts=BatchCounts(rows=1))
    assert isinstance(found, Append)
    return found


def ids(table_format: TableFormat, table: Place) -> list[str]:
    return sorted(tables.existing(table_format, table).to_table(columns=["_id"])["_id"].to_pylist())


def test_a_condition_on_any_column_finds_its_rows(table_format: TableFormat, table: Place) -> None:
    """Also on one that the log has no bounds of, and on one whose values are too long for bounds in one file."""
    more = pa.schema([("priority", pa.int32()), ("node", pa.string())])
    table_format.ensure(table, more)
    for number, node in enumerate(("short", "n" * 200)):
        files = written(table_format, table, f"0{number}", priority=number, node=node)
        table_format.append(table, files, tables.UNNUMBERED)
    rows = tables.existing(table_format, table)
    for condition in (ds.field("priority") == 1, ds.field("node") == "n" * 200, ds.field("_id") == "01"):
        assert rows.to_table(filter=condition)["_id"].to_pylist() == ["01"]
    connection = duckdb.connect()
    connection.register("messages", rows)
    assert connection.sql("select _id from messages where priority >= 1").fetchall() == [("01",)]


def test_a_commit_is_rows_batch_sequence_and_positions_at_once(table_format: TableFormat, table: Place) -> None:
    """And readers find the rows under their topic, odd names included."""
    table_format.append(table, written(table_format, table, "01", "02"), decided(table_format, table, 0, "02"))
    state = table_format.state(table, "app")
    assert (state.batch, state.commit_sequence, state.totals.rows) == (0, 1, 1)
    assert table_format.reached(table).topics[TOPIC].position == state.reached.topics[TOPIC].position == "02"
    found = tables.existing(table_format, table).to_table()
    assert set(found["_topic"].to_pylist()) == {TOPIC}
    assert set(found["_date"].to_pylist()) == {NOW.date()}
    assert [topic for _, topic in table_format.files(table)] == [TOPIC]


def test_rows_of_tasks_are_invisible_before_the_commit(table_format: TableFormat, table: Place) -> None:
    """A killed task's files stay unseen for ever."""
    table_format.append(table, written(table_format, table, "01"), decided(table_format, table, 0, "01"))
    written(table_format, table, "02")
    assert ids(table_format, table) == ["01"]
    assert tables.count(table_format, table) == len(table_format.files(table)) == 1


def test_a_batch_decided_before_somebody_elses_commit_collides(table_format: TableFormat, table: Place) -> None:
    """Both looked before either wrote; the second has to look again, and finds where the table is."""
    first, second = decided(table_format, table, 0, "01"), decided(table_format, table, 0, "01", "other")
    table_format.append(table, written(table_format, table, "01"), first)
    with pytest.raises(Collided):
        table_format.append(table, written(table_format, table, "01"), second)
    assert ids(table_format, table) == ["01"]
    assert table_format.state(table, "other").batch == -1


@pytest.mark.slow
def test_of_many_writers_at_once_each_number_is_taken_by_one(table_format: TableFormat, table: Place) -> None:
    """They race in earnest; every row is in once, every number of the sequence was taken."""
    start = threading.Barrier(4)

    def commit_with_retry(name: str) -> None:
        start.wait()
        for batch in range(5):
            files = written(table_format, table, f"{name}{batch}", topic=f"a/{name}")
            while True:
                state = table_format.state(table, name)
                end = Offsets(
                    service="s",
                    topics={
                        f"a/{name}": TopicOffset(
                            generation=1, position=f"{batch + 1}", start_generation=1, start_position=f"{batch}"
                        )
                    },
                )
                plan = commit.decide(state, application=name, batch=batch, end=end)
                assert isinstance(plan, Append)
                try:
                    table_format.append(table, files, plan)
                    break
                except Collided:
                    continue

    writers = [threading.Thread(target=commit_with_retry, args=(name,)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert ids(table_format, table) == sorted(f"{name}{batch}" for name in "abcd" for batch in range(5))
    state = table_format.state(table, "a")
    assert state.commit_sequence == 20
    assert {topic: place.position for topic, place in state.reached.topics.items()} == {
        f"a/{name}": "5" for name in "abcd"
    }


def test_an_empty_batch_still_moves_the_positions(table_format: TableFormat, table: Place) -> None:
    """All of it was dead letters, say."""
    table_format.append(table, [], decided(table_format, table, 0, "05"))
    assert table_format.reached(table).topics[TOPIC].position == "05"
    assert ids(table_format, table) == []


def test_a_backfill_leaves_the_positions_alone(table_format: TableFormat, table: Place) -> None:
    """Its rows count all the same."""
    table_format.append(table, written(table_format, table, "02"), decided(table_format, table, 0, "02"))
    table_format.append(table, written(table_format, table, "01"), tables.UNNUMBERED)
    state = table_format.state(table, "app")
    assert (state.batch, state.reached.topics[TOPIC].position) == (0, "02")
    assert tables.count(table_format, table) == 2


def test_the_newest_commits_come_first(table_format: TableFormat, table: Place) -> None:
    """With what was left in them."""
    for batch in range(3):
        table_format.append(
            table, written(table_format, table, f"0{batch}"), decided(table_format, table, batch, f"0{batch}")
        )
    entries = table_format.last_entries(table, 2)
    assert [entry.info.batch for entry in entries if entry.info is not None] == [2, 1]
    assert abs(entries[0].timestamp_ms / 1000 - time.time()) < 60
    found = table_format.size(table)
    assert found is not None
    assert (found.files, found.rows, found.version) == (3, 3, 3)
    assert found.bytes > 0


def test_a_new_table_has_reached_nothing_and_no_table_even_less(table_format: TableFormat, table: Place) -> None:
    """A job that has not started yet has a status all the same."""
    none = table.with_name("none")
    assert table_format.reached(table) == table_format.reached(none) == Offsets()
    assert (table_format.version(none), table_format.version(table)) == (None, 0)
    assert (
        table_format.last_entries(none, 5),
        table_format.size(none),
        table_format.files(none),
        table_format.dataset(none),
    ) == ([], None, [], None)
    assert table_format.vacuum(none, retention_hours=1, dry_run=False) == []
    assert ids(table_format, table) == []
    with pytest.raises(errors.Stop, match=r"there is no table here.*has the job run"):
        tables.existing(table_format, none)


def test_columns_are_added_and_types_never_changed(table_format: TableFormat, table: Place) -> None:
    """Older rows are null there; batch and positions survive the change."""
    table_format.append(table, written(table_format, table, "01"), decided(table_format, table, 0, "01"))
    for _ in range(2):
        table_format.ensure(table, pa.schema([*SCHEMA, ("warm", pa.float64())]))
    table_format.append(table, written(table_format, table, "02", warm=1.5), decided(table_format, table, 1, "02"))
    rows = tables.existing(table_format, table).to_table().sort_by("_id")
    assert rows["warm"].to_pylist() == [None, 1.5]
    assert table_format.state(table, "app").batch == 1
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TABLE_UNFIT: .*warm"):
        table_format.ensure(table, pa.schema([*SCHEMA, ("warm", pa.string())]))


@pytest.mark.parametrize("kind", FORMATS, indirect=True)
def test_a_table_of_another_format_is_left_alone(kind: str, table: Place, tmp_path: Path) -> None:
    """Two logs in one folder would each tell half."""
    for other in FORMATS:
        if other != kind:
            with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT):
                format_of(other, tmp_path).ensure(table, SCHEMA)


def test_identities_are_taken_from_a_stretch_of_time(table_format: TableFormat, table: Place) -> None:
    """From inclusive, until not."""
    table_format.append(table, written(table_format, table, "01"), decided(table_format, table, 0, "01"))
    moment = int(NOW.timestamp() * 1000)
    assert tables.identities(table_format, table, moment, moment + 1).to_pylist() == [{"_topic": TOPIC, "_id": "01"}]
    assert tables.identities(table_format, table, None, moment).num_rows == 0
    assert tables.identities(table_format, table, moment + 1, None).num_rows == 0


def test_vacuum_finds_what_a_killed_task_left(table_format: TableFormat, table: Place, folder: Path) -> None:
    """Old enough to belong to no batch; a young one may belong to a running batch, and what is committed stays."""
    table_format.append(table, written(table_format, table, "01"), decided(table_format, table, 0, "01"))
    known = set(folder.rglob("part-*"))
    written(table_format, table, "02")
    (old,) = set(folder.rglob("part-*")) - known
    written(table_format, table, "03")
    hours_ago = time.time() - 3 * 3600
    for path in (old, *known):
        os.utime(path, (hours_ago, hours_ago))
    listed = table_format.vacuum(table, retention_hours=2, dry_run=True)
    assert [Path(path).name for path in listed] == [old.name]
    assert old.exists()
    assert table_format.vacuum(table, retention_hours=2, dry_run=False) == listed
    assert len(list(folder.rglob("part-*"))) == 2
    assert ids(table_format, table) == ["01"]


def test_others_read_what_is_committed_and_only_that(table_format: TableFormat, table: Place) -> None:
    """polars and DuckDB, each in the way this format offers."""
    table_format.append(table, written(table_format, table, "01", "02"), decided(table_format, table, 0, "02"))
    written(table_format, table, "03")
    if isinstance(table_format, IcebergFormat):
        by_name = table_format.open.required(table)
        assert by_name.scan().to_arrow()["_id"].sort().to_pylist() == ["01", "02"]
        found = {} if isinstance(table, Path) else object_store.storage_options(table.storage)
        options = {key: value for key, value in found.items() if key.startswith("aws_")}
        assert pl.scan_iceberg(by_name, storage_options=options).collect()["_id"].sort().to_list() == ["01", "02"]
        rows = table_format.dataset(table)
        assert rows is not None
        assert duckdb.execute("select _topic, count(*) from rows group by 1").fetchall() == [(TOPIC, 2)]
        return
    found = {} if isinstance(table, Path) else object_store.storage_options(table.storage)
    options = {key: value for key, value in found.items() if key.startswith("aws_")}
    assert pl.scan_delta(str(table), storage_options=options).collect()["_id"].sort().to_list() == ["01", "02"]
