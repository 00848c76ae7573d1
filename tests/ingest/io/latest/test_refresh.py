"""A refreshed latest table equals the model, whatever was done to the rows or to the table before."""

from __future__ import annotations

import datetime
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from tests.support.tables.latest_rows import SCHEMA, Row, append, content, model

from fairlead_ingest import errors
from fairlead_ingest.io.latest import fold, latest_table, row_files
from fairlead_ingest.io.latest.refresh import Refreshed, latest_status, refresh
from fairlead_ingest.io.table import maintenance
from fairlead_ingest.io.table.maintenance import TARGET_BYTES
from fairlead_ingest.latest.definition import LatestDefinition

BY_NODE = LatestDefinition(key=("node",))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "rows", tmp_path / "rows_latest"


def version(table: Path) -> int:
    found = latest_table.open_state(table)
    assert found is not None
    return found.version


def refreshed(rows: Path, latest: Path, definition: LatestDefinition = BY_NODE, **more: Any) -> Refreshed:
    found = refresh(rows, latest, definition, **more)
    assert found is not None
    return found


def values(latest: Path) -> dict[str, int]:
    """The value of the newest row by node."""
    return {key[0]: found[1] for key, found in content(latest, BY_NODE).items()}


def test_each_refresh_folds_what_the_rows_got_since(places):
    rows, latest = places
    assert refresh(rows, latest, BY_NODE) is None
    append(rows, [Row(node="a", number=1, value=1), Row(node="b", number=2, value=2)])
    first = refreshed(rows, latest)
    assert (first.mark.version, first.mark.keys, first.changed) == (1, 2, 2)
    assert "did not exist" in first.reason
    append(rows, [Row(node="a", number=3, value=3), Row(node="c", number=4, value=4)])
    second = refreshed(rows, latest)
    assert (second.mark.version, second.mark.keys, second.changed, second.reason) == (2, 3, 2, "")
    assert values(latest) == {"a": 3, "b": 2, "c": 4}
    before = version(latest)
    third = refreshed(rows, latest)
    assert (third.changed, third.rows_read, version(latest)) == (0, 0, before)


@pytest.mark.slow
def test_rows_are_compacted_and_vacuumed_before_they_were_folded(places):
    """What was added and joined since is read from the file it became; nothing else is."""
    rows, latest = places
    append(rows, [Row(node="old", number=1)])
    refresh(rows, latest, BY_NODE)
    append(rows, [Row(node="a", number=2)])
    append(rows, [Row(node="b", number=3)])
    DeltaTable(str(rows)).optimize.compact()
    DeltaTable(str(rows)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    found = refreshed(rows, latest)
    assert (found.reason, found.rows_read, found.mark.keys) == ("", 3, 3)


def test_a_delete_reads_all_again_only_where_the_newest_lie(places):
    rows, latest = places
    day = 86_400
    append(rows, [Row(node="a", number=1), Row(node="b", number=2)])
    append(rows, [Row(node="a", number=day + 1), Row(node="b", number=day + 2)])
    refresh(rows, latest, BY_NODE)
    DeltaTable(str(rows)).delete("_date = '2026-11-20'")
    found = refreshed(rows, latest)
    assert (found.reason, found.rows_read) == ("", 0)
    DeltaTable(str(rows)).delete("node = 'b'")
    assert "deleted" in refreshed(rows, latest).reason
    assert list(content(latest, BY_NODE)) == [("a",)]


@pytest.mark.slow
def test_a_log_that_was_cut_and_rows_brought_back_from_a_copy_are_noticed(places, tmp_path):
    rows, latest = places
    append(rows, [Row(node="a", number=1)])
    copy = shutil.copytree(rows, tmp_path / "copy")
    append(rows, [Row(node="lost", number=2)])
    refresh(rows, latest, BY_NODE)
    shutil.rmtree(rows)
    copy.rename(rows)
    append(rows, [Row(node="b", number=3)])
    append(rows, [Row(node="c", number=4)])
    assert "copy" in refreshed(rows, latest).reason
    assert sorted(content(latest, BY_NODE)) == [("a",), ("b",), ("c",)]
    for number in range(5, 8):
        append(rows, [Row(node="d", number=number)])
    DeltaTable(str(rows)).create_checkpoint()
    (rows / "_delta_log" / f"{5:020d}.json").unlink()
    assert "no longer has version 5" in refreshed(rows, latest).reason
    shutil.rmtree(rows)
    append(rows, [Row(node="e", number=9)])
    assert "replaced" in refreshed(rows, latest).reason
    assert list(content(latest, BY_NODE)) == [("e",)]


def test_rows_that_got_a_column_have_it_in_their_latest_table(places):
    rows, latest = places
    append(rows, [Row(node="a", number=1), Row(node="b", number=2)])
    refresh(rows, latest, BY_NODE)
    append(rows, [Row(node="a", number=3)], pa.schema([*SCHEMA, ("temperature", pa.float64())]), temperature=1.5)
    assert refreshed(rows, latest).reason == ""
    table = DeltaTable(str(latest)).to_pyarrow_table()
    assert dict(zip(table["node"].to_pylist(), table["temperature"].to_pylist(), strict=True)) == {"a": 1.5, "b": None}


@pytest.mark.slow
@pytest.mark.parametrize("change", ["delete", "update"])
def test_rows_that_were_joined_with_news_and_changed_then_are_noticed(places, change):
    """All between two refreshes: the file that goes held rows that were folded before, too."""
    rows, latest = places
    append(rows, [Row(node="a", number=1, value=1), Row(node="c", number=2, value=2)])
    append(rows, [Row(node="c", number=3, value=3)])
    refresh(rows, latest, BY_NODE)
    append(rows, [Row(node="b", number=4, value=4)])
    maintenance.delta_compaction(rows).compact(target_bytes=TARGET_BYTES)
    if change == "delete":
        DeltaTable(str(rows)).delete("value = 3")
    else:
        DeltaTable(str(rows)).update(updates={"value": "2"}, predicate="value = 3")
    refresh(rows, latest, BY_NODE)
    assert values(latest) == {"a": 1, "b": 4, "c": 2}


def test_rows_that_are_made_anew_with_fewer_columns_have_null_there(places):
    """A narrower schema file and a table that was deleted: the latest table is built from what there is."""
    rows, latest = places
    append(rows, [Row(node="a", source="s", number=1)])
    refresh(rows, latest, BY_NODE)
    shutil.rmtree(rows)
    append(rows, [Row(node="a", number=2)], pa.schema([field for field in SCHEMA if field.name != "source"]))
    assert "replaced" in refreshed(rows, latest).reason
    assert [row["source"] for row in DeltaTable(str(latest)).to_pyarrow_table().to_pylist()] == [None]


def test_a_removed_file_of_an_unknown_partition_reads_all_again(places):
    rows, latest = places
    append(rows, [Row(node="a", number=1)])
    append(rows, [Row(node="a", number=2)])
    refresh(rows, latest, BY_NODE)
    DeltaTable(str(rows)).delete(f"_id = '{Row(number=2).id}'")
    newest = max((rows / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in newest.read_text().splitlines()]
    for line in lines:
        line.get("remove", {}).pop("partitionValues", None)
    newest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    refresh(rows, latest, BY_NODE)
    assert {key[0]: found[0] for key, found in content(latest, BY_NODE).items()} == {"a": Row(number=1).id}


@pytest.mark.slow
def test_lists_maps_and_structs_are_kept_as_they_are(places):
    rows, latest = places
    point = pa.struct([("lat", pa.float64()), ("tags", pa.list_(pa.string()))])
    schema = pa.schema([*SCHEMA, ("at", point), ("m", pa.map_(pa.string(), pa.list_(point)))])
    value = {"lat": 1.5, "tags": ["a", None]}
    append(rows, [Row(node="a", number=1)], schema, at=value, m=[("k", [value])])
    append(rows, [Row(node="b", number=2)], schema, at=None, m=None)
    for number in (3, 4):
        refresh(rows, latest, BY_NODE, rebuild=number == 4)
        (found,) = DeltaTable(str(latest)).to_pyarrow_table(filters=[("node", "=", "a")]).to_pylist()
        assert (found["at"], found["m"]) == (value, [("k", [value])])
        DeltaTable(str(rows)).optimize.z_order(["node"])
        append(rows, [Row(node="b", number=number)], schema, at=value, m=[])


@pytest.mark.slow
def test_many_keys_lie_in_many_buckets_and_only_those_that_change_are_written(places, monkeypatch):
    monkeypatch.setattr("fairlead_ingest.latest.newest.KEYS_MAX", 10)
    monkeypatch.setattr(fold, "ROUND_ROWS", 16)
    monkeypatch.setattr(fold, "WINNOW_ROWS", 7)
    monkeypatch.setattr(row_files, "BATCH_ROWS", 5)
    rows, latest = places
    held: list[Row] = []
    for step, keys in enumerate((8, 30, 35, 300)):
        held += [Row(node=f"n{number}", number=1000 * step + number) for number in range(keys)]
        append(rows, held[-keys:])
        refresh(rows, latest, BY_NODE)
        assert content(latest, BY_NODE) == model(held, BY_NODE)
    state = latest_table.open_state(latest)
    assert state is not None
    assert state.mark is not None
    assert (state.mark.buckets, len(state.files)) == (32, 32)
    before = {file.path for file in state.files}
    held.append(Row(node="n1", number=9000))
    append(rows, held[-1:])
    refresh(rows, latest, BY_NODE)
    state = latest_table.open_state(latest)
    assert state is not None
    assert len(before - {file.path for file in state.files}) == 1
    again = refreshed(rows, latest, rebuild=True)
    assert again.mark.keys == 300
    assert content(latest, BY_NODE) == model(held, BY_NODE)


@pytest.mark.slow
def test_two_jobs_refresh_at_the_same_moment(places, monkeypatch):
    """The log refuses the second, which looks again and finds all done; a compaction of others is no harm either."""
    rows, latest = places
    append(rows, [Row(node="a", number=1)])
    refresh(rows, latest, BY_NODE)
    append(rows, [Row(node="a", number=2), Row(node="b", number=3)])
    real = latest_table.commit
    others: list[Callable[[], object]] = [lambda: refresh(rows, latest, BY_NODE)]

    def commit(*arguments: Any) -> None:
        if others:
            others.pop()()
        real(*arguments)

    monkeypatch.setattr(latest_table, "commit", commit)
    found = refreshed(rows, latest)
    assert (found.changed, found.mark.keys) == (0, 2)
    append(rows, [Row(node="a", number=4)])
    others.append(lambda: DeltaTable(str(latest)).optimize.z_order(["node"]))
    found = refreshed(rows, latest)
    assert content(latest, BY_NODE)["a",][0] == Row(number=4).id


def test_the_table_of_another_program_is_left_alone(places):
    rows, latest = places
    append(rows, [Row(node="a", number=1)])
    write_deltalake(str(latest), pa.table({"mine": [1]}))
    with pytest.raises(errors.Stop, match="not a latest table"):
        refresh(rows, latest, BY_NODE)
    assert DeltaTable(str(latest)).to_pyarrow_table().to_pydict() == {"mine": [1]}


def test_files_that_disappear_are_waited_for(places):
    """A version whose files are gone cannot be read by others either."""
    rows, latest = places
    append(rows, [Row(node="a", number=1)])
    for file in rows.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(errors.Wait, match="deleted while they are read"):
        refresh(rows, latest, BY_NODE)


DEFINITIONS = [
    LatestDefinition(key=("node",)),
    LatestDefinition(key=("node", "source"), delete_when={"op": ("delete",)}),
    LatestDefinition(key=("node",), order_by=("enqueued_at",), columns=("value",)),
    LatestDefinition(key=("value",), order_by=("value",)),
]
ROW = st.builds(
    Row,
    node=st.sampled_from(["a", "b", "c/../d", "é\u202e", "x" * 5000, "", "\x1f"]),
    source=st.sampled_from([None, "", "m"]),
    enqueued=st.one_of(st.none(), st.integers(-50, 200)),
    value=st.integers(0, 3),
    op=st.sampled_from([None, "delete", "upsert"]),
    topic=st.sampled_from(["plant/a", "plant/b"]),
)
STEP = st.one_of(
    st.lists(ROW, max_size=6),
    st.sampled_from(["refresh", "compact", "again", "repeat", "delete", "restore", "lost", "sweep"]),
)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.sampled_from(DEFINITIONS), st.lists(STEP, min_size=1, max_size=10))
def test_whatever_happens_it_equals_the_model(tmp_path_factory, definition, steps):
    """Rows in any order and more than once; compacted, deleted, restored; the latest table lost, made again."""
    rows, latest = (tmp_path_factory.mktemp("t") / name for name in ("rows", "rows_latest"))
    numbers = itertools.count(1)
    held: list[Row] = []
    append(rows, [])
    versions: dict[int, list[Row]] = {1: []}
    for step in steps:
        if isinstance(step, list):
            news = [_numbered(row, next(numbers)) for row in step]
            append(rows, news)
            held = [*held, *news]
        elif step == "repeat":
            append(rows, held[:2])  # as a backfill of what somebody deleted and what is there again by then
        elif step in ("refresh", "again"):
            refresh(rows, latest, definition, rebuild=step == "again")
        elif step == "compact":
            DeltaTable(str(rows)).optimize.compact()
        elif step == "sweep":
            DeltaTable(str(rows)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        elif step == "delete":
            DeltaTable(str(rows)).delete("value = 1")
            held = [row for row in held if row.value != 1]
        elif step == "restore" and "sweep" not in steps:
            earlier = sorted(each for each in versions if each < DeltaTable(str(rows)).version())
            for back in earlier[len(earlier) // 2 :][:1]:
                DeltaTable(str(rows)).restore(back)
                held = versions[back]
        elif step == "lost" and latest_table.open_state(latest) is not None:
            DeltaTable(str(latest)).delete()
        versions[DeltaTable(str(rows)).version()] = held
    found = refreshed(rows, latest, definition)
    assert found.mark.version == DeltaTable(str(rows)).version()
    assert content(latest, definition) == model(held, definition)


def _numbered(row: Row, number: int) -> Row:
    return Row(**{**{name: getattr(row, name) for name in Row.__slots__}, "number": number})


def test_it_says_how_many_keys_and_how_far_behind(tmp_path):
    rows, latest = tmp_path / "rows", tmp_path / "rows_latest"
    definition = LatestDefinition(key=("node",), delete_when={"op": ("d",)})
    append(rows, [Row(node="a", number=1), Row(node="b", number=2, op="d")])
    now = datetime.datetime.now(datetime.UTC)
    assert latest_status(rows, now) == {"table": str(latest), "state": "no table yet"}
    refresh(rows, latest, definition)
    append(rows, [Row(node="c", number=3)])
    facts = latest_status(rows, now + datetime.timedelta(seconds=60))
    json.dumps(facts)
    assert (facts["state"], facts["keys"], facts["deleted_keys"], facts["versions_behind"]) == ("ok", 1, 1, 1)
    assert 0 < facts["last_refresh_seconds"] < 100
    DeltaTable(str(latest)).delete("node = 'a'")
    assert latest_status(rows, now)["state"] == "to be built"
