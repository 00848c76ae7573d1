"""Counting rows and files of real tables for the report."""

from __future__ import annotations

import datetime
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.store_proxy import StoreProxy
from tests.support.tables.table_formats import FORMATS, append_rows, format_of

from fairlead_ingest import errors
from fairlead_ingest.io import table_report
from fairlead_ingest.io.table import delta
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.io.table.tables import DEAD_LETTERS, DEAD_LETTERS_SCHEMA, GAPS, GAPS_SCHEMA, beside, of
from fairlead_ingest.report.facts import LetterCount
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.table.store_path import Place

NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)
LINEAGE = [("_topic", pa.string()), ("_published_at", TIMESTAMP), ("_ingested_at", TIMESTAMP), ("_date", pa.date32())]
SCHEMA = pa.schema([("node", pa.string()), ("priority", pa.int32()), ("enqueued_at", TIMESTAMP), *LINEAGE])


def tables(path: Path, schema: pa.Schema) -> Path:
    delta.ensure(path, schema)
    delta.ensure(beside(path, DEAD_LETTERS), DEAD_LETTERS_SCHEMA)
    delta.ensure(beside(path, GAPS), GAPS_SCHEMA)
    return path


def put(path: Path, schema: pa.Schema, *rows: Mapping[str, object], form: TableFormat = delta) -> None:
    base = {"_topic": "a/t", "_published_at": NOON, "_ingested_at": NOON, "_date": NOON.date()}
    append_rows(form, path, [{**base, **row} for row in rows], schema)


def test_rows_are_counted_by_what_people_ask_for(tmp_path):
    """And delays by priority, rows without a time left aside."""
    path = tables(tmp_path / "rows", SCHEMA)
    put(
        path,
        SCHEMA,
        {"node": "edge-1", "priority": 0, "enqueued_at": NOON - SECOND},
        {"node": "edge-1", "priority": 0, "enqueued_at": NOON - 3 * SECOND},
        {"node": "edge-2", "priority": None, "enqueued_at": None},
    )
    found = table_report.table_facts("p", delta, path)
    assert (found.rows, found.by_node, found.by_hour) == (3, [("edge-1", 2), ("edge-2", 1)], [("2026-11-20 12:00", 3)])
    (delay,) = found.delays
    assert (delay.priority, delay.rows) == (0, 2)
    assert 1.0 <= delay.to_table[0] <= 3.0


def test_companions_are_part_of_the_story(tmp_path):
    path = tables(tmp_path / "rows", SCHEMA)
    broken = {"error": "not JSON", "code": "not_json", "fields": []}
    put(beside(path, DEAD_LETTERS), DEAD_LETTERS_SCHEMA, broken, broken)
    gap = {"reason": "expired", "from_generation": 1, "from_position": "0a", "to_generation": 1, "to_position": "0f"}
    put(beside(path, GAPS), GAPS_SCHEMA, gap)
    found = table_report.table_facts("p", delta, path)
    assert (found.rows, found.dead_letters) == (0, [LetterCount(code="not_json", rows=2, example="not JSON")])
    (noticed,) = found.gaps
    assert (noticed.reason, noticed.topic, noticed.begins, noticed.ends, noticed.rows) == (
        *("expired", "a/t", "1:0a", "1:0f"),
        None,
    )
    assert noticed.seconds == NOON.timestamp()


OLD_SCHEMA = pa.schema([field for field in DEAD_LETTERS_SCHEMA if field.name not in ("code", "fields")])


@pytest.mark.parametrize("sink", FORMATS)
def test_dead_letters_of_an_older_version_are_counted_without_a_code(tmp_path, sink):
    """Before a job of this version opened their table, after it did, and beside rows it wrote since."""
    form = format_of(sink, tmp_path)
    path = tmp_path / "rows"
    for table, schema in ((path, SCHEMA), (beside(path, GAPS), GAPS_SCHEMA), (beside(path, DEAD_LETTERS), OLD_SCHEMA)):
        form.ensure(table, schema)
    letters = beside(path, DEAD_LETTERS)
    put(letters, OLD_SCHEMA, {"error": "Expected `int` - at `$.epoch`"}, form=form)
    old = LetterCount(code="unknown", rows=1, example="Expected `int` - at `$.epoch`")
    assert table_report.table_facts("p", form, path).dead_letters == [old]
    form.ensure(letters, DEAD_LETTERS_SCHEMA)
    assert table_report.table_facts("p", form, path).dead_letters == [old]
    new = {"error": "Expected `int`", "code": "bad_field", "fields": ["epoch", "sequence"]}
    put(letters, DEAD_LETTERS_SCHEMA, new, new, form=form)
    assert table_report.table_facts("p", form, path).dead_letters == [
        LetterCount(code="bad_field", fields=("epoch", "sequence"), rows=2, example="Expected `int`"),
        old,
    ]


def test_a_raw_table_has_no_nodes(tmp_path):
    schema = pa.schema(LINEAGE)
    path = tables(tmp_path / "rows", schema)
    put(path, schema, {})
    found = table_report.table_facts("p", delta, path)
    assert (found.rows, list(found.by_node), list(found.delays)) == (1, [], [])


@pytest.mark.parametrize("sink", FORMATS)
def test_a_table_that_was_only_ever_backfilled_has_no_side_tables(tmp_path, sink):
    form, path = format_of(sink, tmp_path), tmp_path / "rows"
    form.ensure(path, SCHEMA)
    put(path, SCHEMA, {"node": "edge-1"}, form=form)
    found = table_report.table_facts("p", form, path)
    assert (found.rows, list(found.gaps), list(found.dead_letters)) == (1, [], [])


def test_no_table_is_said_so(tmp_path):
    with pytest.raises(errors.Stop, match="there is no table"):
        table_report.table_facts("p", delta, tmp_path / "none")


SCHEMA_FILE_SIZES = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])


def append(form: TableFormat, table: Place, schema: pa.Schema = SCHEMA_FILE_SIZES, **row: Any) -> None:
    first = {"_id": "a", "_topic": "a/t", "_date": datetime.date(2026, 11, 20)}
    append_rows(form, table, [{**first, **row}], schema)


@pytest.mark.parametrize("sink", FORMATS)
def test_files_of_a_folder(tmp_path, sink):
    """Only those of the newest version; the clock is asked before and after each opening."""
    form, table = format_of(sink, tmp_path), tmp_path / "rows"
    form.ensure(table, SCHEMA_FILE_SIZES)
    for day in (20, 20, 21):
        append(form, table, _date=datetime.date(2026, 11, day))
    unfinished = {"_id": "a", "_topic": "a/t", "_date": datetime.date(2026, 11, 21)}
    form.writing(table).add(pa.Table.from_pylist([unfinished], schema=SCHEMA_FILE_SIZES))
    ticks = itertools.count(0.0, 0.25)
    found = table_report.measure_files(form, table, lambda: next(ticks))
    assert (found.files, found.compacted, found.open_seconds, found.opened) == (3, 2, 0.25, 3)
    assert list(found.by_day) == [("2026-11-20", 2), ("2026-11-21", 1)]
    assert found.bytes == sum(path.stat().st_size for path in table.rglob("*.parquet"))


def test_a_file_that_was_vacuumed_meanwhile_is_left_out(tmp_path):
    form, table = of("delta"), tmp_path / "rows"
    form.ensure(table, SCHEMA_FILE_SIZES)
    assert table_report.measure_files(form, table, lambda: 0.0).files == 0
    append(form, table)
    for path in table.rglob("*.parquet"):
        path.unlink()
    found = table_report.measure_files(form, table, lambda: 0.0)
    assert (found.files, found.open_seconds) == (0, None)


@pytest.mark.process
@pytest.mark.parametrize("sink", ["delta", "iceberg"])
def test_of_a_store_only_the_ends_of_files_are_read(tmp_path, sink):
    """What opening costs a reader, not reading; names in the store are quoted. One that is gone is left out."""
    schema = pa.schema([*SCHEMA_FILE_SIZES, ("payload", pa.binary())])
    with ObjectStore(tmp_path) as store, StoreProxy(store, tmp_path) as proxy:
        form, table = format_of(sink, tmp_path), proxy.place("rows")
        form.ensure(table, schema)
        for name in ("a", "b"):
            append(form, table, schema, _id=name, _topic="a/we ird%2F=ü", payload=os.urandom(1024 * 1024))
        before = proxy.bytes_read()
        found = table_report.measure_files(form, table, lambda: 0.0)
        assert (found.files, found.opened, found.compacted) == (2, 2, 1) and found.bytes > 2 * 1024 * 1024
        assert proxy.bytes_read() - before < 1024 * 1024
        next(path for path in store.content.rglob("*.parquet")).unlink()
        found = table_report.measure_files(form, table, lambda: 0.0)
        assert (found.files, found.opened) == (1, 1)


def table(*rows: Mapping[str, object]) -> ds.Dataset:
    base = {"_published_at": NOON, "_ingested_at": NOON + SECOND, "_date": NOON.date()}
    return ds.dataset(pa.Table.from_pylist([{**base, **row} for row in rows], schema=SCHEMA))


@pytest.mark.parametrize("batch_rows", [1, 2, 131_072])
def test_counts_do_not_depend_on_batches(monkeypatch, batch_rows):
    """Nodes, priorities, delays, and counts by time; progress is what was counted."""
    monkeypatch.setattr(table_report, "BATCH_ROWS", batch_rows)
    told: list[int] = []
    found = table_report.count_rows(
        table(
            {"node": "b", "priority": 0, "enqueued_at": NOON - SECOND},
            {"node": "a", "priority": None, "enqueued_at": NOON - 9 * SECOND},
            {"node": "b", "priority": 10, "enqueued_at": None},
            {"node": None, "priority": 0, "enqueued_at": NOON},
        ),
        None,
        told.append,
    )
    assert sum(told) == found.rows == 4
    assert found.nodes() == [("b", 2), ("None", 1), ("a", 1)]
    assert found.priorities() == [("0", 2), ("10", 1), ("None", 1)]
    assert [(delay.priority, delay.rows) for delay in found.delays()] == [(0, 2), (None, 1)]
    assert 1.0 <= found.delays()[0].to_messaging[1] <= 1.13 and 10.0 <= found.delays()[1].to_table[0] <= 11.3
    first, second = found.over_time.points()
    assert (first.arrived, first.taken, first.waiting, second.taken, second.waiting) == (4.0, 0.0, 4, 4.0, 0)


def test_only_the_days_that_were_asked_for():
    old = NOON - datetime.timedelta(days=3)
    rows = table({"_published_at": old, "_ingested_at": old, "_date": old.date()}, {})
    assert table_report.count_rows(rows, NOON.date(), lambda _: None).rows == 1
    assert table_report.count_rows(rows, old.date(), lambda _: None).rows == 2


def test_more_priorities_or_nodes_than_are_counted_apart(monkeypatch):
    monkeypatch.setattr(table_report, "PRIORITIES_MAX", 2)
    found = table_report.count_rows(
        table(*({"priority": each, "enqueued_at": NOON} for each in (1, 2, 3, 4))), None, lambda _: None
    )
    assert found.priorities() == [("1", 1), ("2", 1), ("None", 2)]
    assert [(each.priority, each.rows) for each in found.delays()] == [(1, 1), (2, 1), (None, 2)]
    monkeypatch.setattr(table_report, "NODES_MAX", 2)
    monkeypatch.setattr(table_report, "BATCH_ROWS", 1)
    found = table_report.count_rows(table(*({"node": f"edge-{each}"} for each in range(9))), None, lambda _: None)
    assert found.nodes() == [(table_report.OTHER_NODES, 7), ("edge-0", 1), ("edge-1", 1)]


def test_rows_without_an_envelope_have_times():
    rows = table({}, {}).to_table()
    found = table_report.count_rows(
        ds.dataset(rows.select(["_published_at", "_ingested_at", "_date"])), None, lambda _: None
    )
    assert (found.rows, found.nodes(), found.delays()) == (2, [], [])
    assert found.over_time.points()[0].p50 is not None
