"""The sink's two halves, called as Spark calls them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.tables.table_formats import FORMATS, ROWS_SCHEMA, catalog_of, format_of
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest import errors
from fairlead_ingest.io.sink import batch_commit
from fairlead_ingest.io.sink.spark_sink import DeltaSink, StreamWriter
from fairlead_ingest.io.sink.task_writer import Written
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.io.table.tables import DEAD_LETTERS, DEAD_LETTERS_SCHEMA, GAPS, GAPS_SCHEMA
from fairlead_ingest.rows import envelope
from fairlead_ingest.source.offsets import Gap, Offsets, TopicOffset
from fairlead_ingest.table.commit import Append, Collided
from fairlead_ingest.table.commit_info import BatchCounts


@pytest.fixture(params=FORMATS)
def sink(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table_format(sink: str, tmp_path: Path) -> TableFormat:
    return format_of(sink, tmp_path)


@pytest.fixture
def writer(sink: str, table_format: TableFormat, tmp_path: Path) -> StreamWriter:
    table_format.ensure(tmp_path / "rows", ROWS_SCHEMA)
    table_format.ensure(tmp_path / f"rows{DEAD_LETTERS}", DEAD_LETTERS_SCHEMA)
    table_format.ensure(tmp_path / f"rows{GAPS}", GAPS_SCHEMA)
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "q"}')
    return StreamWriter(
        table_format=sink,
        catalog=catalog_of(sink, tmp_path),
        table=tmp_path / "rows",
        checkpoint_path=tmp_path / "checkpoint",
        on_expired="gap",
    )


def planned(tmp_path: Path, batch: int, rows: int, **changes: Any) -> None:
    """Plan a batch of so many rows from the beginning of the topic to 0f, with these changes."""
    bounds = {"generation": 1, "position": "0f", "start_generation": 1, "start_position": "", "rows": rows}
    end = Offsets(service="s", topics={"a/t": TopicOffset(**{**bounds, **changes})})
    (tmp_path / "checkpoint" / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(end.to_dict())}")


def batches(*payloads: bytes) -> Iterator[pa.RecordBatch]:
    now = datetime.datetime.now(datetime.UTC)
    moments = pa.array([now] * len(payloads), pa.timestamp("us", tz="UTC"))
    ids = pa.array([bytes([number]) * 20 for number in range(len(payloads))], pa.binary())
    page = pa.Table.from_batches([envelope.page("a/t", ids, moments, pa.array(payloads, pa.binary()))])
    page = page.append_column("_ingested_at", moments)
    page = page.append_column("_date", pa.array([now.date()] * len(payloads), pa.date32()))
    yield from page.to_batches()


def count(table_format: TableFormat, tmp_path: Path, suffix: str = "") -> int:
    return int(tables.existing(table_format, tmp_path / f"rows{suffix}").count_rows())


def test_rows_and_dead_letters_are_committed_once(table_format, writer, tmp_path):
    planned(tmp_path, 0, rows=3)
    for _ in range(2):
        written = writer.write(batches(upstream_message(1), b"broken", upstream_message(2)))
        writer.commit([written, None], 0)
    assert (count(table_format, tmp_path), count(table_format, tmp_path, DEAD_LETTERS)) == (2, 1)


def test_dead_letters_committed_before_a_crash_are_not_committed_again(table_format, writer, tmp_path, monkeypatch):
    planned(tmp_path, 0, rows=2)
    written = writer.write(batches(upstream_message(1), b"broken"))
    appended = table_format.append

    def crash(table: Path, files: Sequence[WrittenFile], decided: Append) -> None:
        if table.name == "rows":
            raise SystemExit
        appended(table, files, decided)

    monkeypatch.setattr(table_format, "append", crash)
    with pytest.raises(SystemExit):
        writer.commit([written], 0)
    monkeypatch.undo()
    writer.commit([writer.write(batches(upstream_message(1), b"broken"))], 0)
    assert (count(table_format, tmp_path), count(table_format, tmp_path, DEAD_LETTERS)) == (1, 1)


def test_abort_leaves_the_files_alone(table_format, writer, tmp_path):
    planned(tmp_path, 0, rows=1)
    written = writer.write(batches(upstream_message(1)))
    writer.commit([written], 0)
    writer.abort([written], 0)
    assert count(table_format, tmp_path) == 1


def newest(table_format: TableFormat, tmp_path: Path) -> BatchCounts:
    info = table_format.last_entries(tmp_path / "rows", 1)[0].info
    assert info is not None
    return info.counts


def test_what_was_promised_and_not_found_had_expired(table_format, writer, tmp_path):
    gap = Gap(reason="expired", upto="0a", rows=4)
    planned(tmp_path, 0, rows=3, start_position="01", gap=gap)
    writer.commit([writer.write(batches(upstream_message(1), b"broken"))], 0)
    counts = newest(table_format, tmp_path)
    assert (counts.rows, counts.dead_letters, counts.expired_unread) == (1, 1, 5)
    assert sum(counts.ages) == 1


def test_what_a_query_filtered_had_not_expired(sink, table_format, writer, tmp_path):
    selecting = StreamWriter(
        table_format=sink,
        catalog=catalog_of(sink, tmp_path),
        table=tmp_path / "rows",
        checkpoint_path=tmp_path / "checkpoint",
        on_expired="count",
        selects=True,
    )
    planned(tmp_path, 0, rows=3)
    selecting.commit([selecting.write(batches(upstream_message(1)))], 0)
    counts = newest(table_format, tmp_path)
    assert (counts.rows, counts.filtered, counts.expired_unread) == (1, 2, 0)


def test_a_jump_leaves_a_gap_row(table_format, writer, tmp_path):
    planned(tmp_path, 0, rows=0, start_position="01", gap=Gap(reason="expired", upto="0a", rows=4))
    writer.commit([Written()], 0)
    (gap,) = tables.existing(table_format, tmp_path / "rows_gaps").to_table().to_pylist()
    assert (gap["reason"], gap["from_position"], gap["to_position"], gap["rows"]) == ("expired", "01", "0a", 4)


def test_a_batch_that_collided_looks_again(table_format, writer, tmp_path, monkeypatch):
    """Another job on other topics of the same table costs it a second look; one that never ends is recognized."""
    planned(tmp_path, 0, rows=1)
    appended, collisions = table_format.append, [1]

    def collide(table: Path, files: Sequence[WrittenFile], decided: Append) -> None:
        if collisions.pop():
            raise Collided("once")
        appended(table, files, decided)

    monkeypatch.setattr(table_format, "append", collide)
    collisions[:] = [0, 1]
    writer.commit([writer.write(batches(upstream_message(1)))], 0)
    assert count(table_format, tmp_path) == 1
    planned(tmp_path, 1, rows=1, position="1f", start_position="0f")
    collisions[:] = [1] * batch_commit.COLLISIONS_MAX
    with pytest.raises(errors.Stop, match=errors.TABLE_TAKEN):
        writer.commit([writer.write(batches(upstream_message(2)))], 1)


def test_of_two_jobs_on_one_topic_the_second_is_refused(table_format, writer, tmp_path):
    planned(tmp_path, 0, rows=1)
    second = writer.write(batches(upstream_message(1)))
    writer.commit([writer.write(batches(upstream_message(1)))], 0)
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "other"}')
    with pytest.raises(errors.Stop, match=errors.TABLE_TAKEN):
        writer.commit([second], 0)
    assert count(table_format, tmp_path) == 1


def test_raw_rows_have_no_passengers(tmp_path, table_format, writer):
    day = pa.array([datetime.date(2026, 11, 20)], pa.date32())
    rows = pa.table({"payload": pa.array([b"x"], pa.binary()), "_id": ["01"], "_topic": ["a/t"], "_date": day})
    written = writer.write(iter(rows.to_batches()))
    assert [file.rows for file in written.rows] == [1]
    assert written.dead == []


@pytest.mark.parametrize("missing", ["table", "checkpoint"])
def test_a_missing_option_is_named(missing):
    options = {name: "/x" for name in ("table", "checkpoint") if name != missing}
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: {missing}"):
        DeltaSink(options=options).streamWriter(None, False)  # type: ignore[arg-type]
