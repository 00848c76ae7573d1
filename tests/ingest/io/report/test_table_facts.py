"""Counted from real tables."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.tables.table_formats import FORMATS, format_of

from fairlead_ingest import errors
from fairlead_ingest.io import table_report
from fairlead_ingest.io.table import delta
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.io.table.tables import DEAD_LETTERS, DEAD_LETTERS_SCHEMA, GAPS, GAPS_SCHEMA, UNNUMBERED, beside
from fairlead_ingest.report.facts import LetterCount
from fairlead_ingest.rows.envelope import TIMESTAMP

NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
LINEAGE = [("_topic", pa.string()), ("_published_at", TIMESTAMP), ("_ingested_at", TIMESTAMP), ("_date", pa.date32())]
SCHEMA = pa.schema([("node", pa.string()), ("priority", pa.int32()), ("enqueued_at", TIMESTAMP), *LINEAGE])


def tables(path: Path, schema: pa.Schema) -> Path:
    delta.ensure(path, schema)
    delta.ensure(beside(path, DEAD_LETTERS), DEAD_LETTERS_SCHEMA)
    delta.ensure(beside(path, GAPS), GAPS_SCHEMA)
    return path


def put(path: Path, schema: pa.Schema, *rows: Mapping[str, object], form: TableFormat = delta) -> None:
    writing = form.writing(path)
    base = {"_topic": "a/t", "_published_at": NOON, "_ingested_at": NOON, "_date": NOON.date()}
    writing.add(pa.Table.from_pylist([{**base, **row} for row in rows], schema=schema))
    form.append(path, writing.close(), UNNUMBERED)


def test_rows_are_counted_by_what_people_ask_for(tmp_path: Path) -> None:
    """And delays by priority, rows without a time left aside."""
    path = tables(tmp_path / "rows", SCHEMA)
    second = datetime.timedelta(seconds=1)
    put(
        path,
        SCHEMA,
        {"node": "edge-1", "priority": 0, "enqueued_at": NOON - second},
        {"node": "edge-1", "priority": 0, "enqueued_at": NOON - 3 * second},
        {"node": "edge-2", "priority": None, "enqueued_at": None},
    )
    found = table_report.table_facts("p", delta, path)
    assert (found.rows, found.by_node, found.by_hour) == (3, [("edge-1", 2), ("edge-2", 1)], [("2026-11-20 12:00", 3)])
    (delay,) = found.delays
    assert (delay.priority, delay.rows) == (0, 2)
    assert 1.0 <= delay.to_table[0] <= 3.0


def test_companions_are_part_of_the_story(tmp_path: Path) -> None:
    """Gaps as they are, dead letters by code; an empty table is no error."""
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
def test_dead_letters_of_an_older_version_are_counted_without_a_code(tmp_path: Path, sink: str) -> None:
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


def test_a_raw_table_has_no_nodes(tmp_path: Path) -> None:
    """Nor delays."""
    schema = pa.schema(LINEAGE)
    path = tables(tmp_path / "rows", schema)
    put(path, schema, {})
    found = table_report.table_facts("p", delta, path)
    assert (found.rows, list(found.by_node), list(found.delays)) == (1, [], [])


@pytest.mark.parametrize("sink", FORMATS)
def test_a_table_that_was_only_ever_backfilled_has_no_side_tables(tmp_path: Path, sink: str) -> None:
    form, path = format_of(sink, tmp_path), tmp_path / "rows"
    form.ensure(path, SCHEMA)
    put(path, SCHEMA, {"node": "edge-1"}, form=form)
    found = table_report.table_facts("p", form, path)
    assert (found.rows, list(found.gaps), list(found.dead_letters)) == (1, [], [])


def test_no_table_is_said_so(tmp_path: Path) -> None:
    """Politely."""
    with pytest.raises(errors.Stop, match="there is no table"):
        table_report.table_facts("p", delta, tmp_path / "none")
