"""What one task writes, without Spark."""

from __future__ import annotations

import datetime
import errno
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.support.tables.table_formats import FORMATS, format_of
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest import errors
from fairlead_ingest.io.sink import task_writer
from fairlead_ingest.io.sink.task_writer import NO_BATCH
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.files import PartitionedFiles
from fairlead_ingest.rows import envelope

NOW = datetime.datetime.now(datetime.UTC)


def batches(*payloads: bytes) -> Iterator[pa.RecordBatch]:
    moments = pa.array([NOW] * len(payloads), envelope.TIMESTAMP)
    ids = pa.array([bytes([number]) * 20 for number in range(len(payloads))], pa.binary())
    page = pa.Table.from_batches([envelope.page("a/t", ids, moments, pa.array(payloads, pa.binary()))])
    page = page.append_column("_ingested_at", moments)
    yield from page.append_column("_date", pa.array([NOW.date()] * len(payloads), pa.date32())).to_batches()


@pytest.mark.parametrize("sink", FORMATS)
def test_valid_rows_and_dead_letters_lie_in_files_of_their_own(sink, tmp_path):
    """With the ages of the rows, counted; what a page without an error holds is in the first alone."""
    found = task_writer.write(
        batches(upstream_message(1), b"broken", upstream_message(2)), format_of(sink, tmp_path), tmp_path / "rows", 3
    )
    assert [file.rows for file in found.rows] == [2]
    assert [file.rows for file in found.dead] == [1]
    assert (sum(found.ages), found.fields) == (2, {})
    clean = task_writer.write(batches(upstream_message(1)), format_of(sink, tmp_path), tmp_path / "rows", NO_BATCH)
    assert ([file.rows for file in clean.rows], clean.dead) == ([1], [])


def test_a_dead_letter_keeps_its_payload_and_says_why():
    rows = pa.Table.from_batches(list(batches(upstream_message(1), b"broken")))
    rows = rows.append_column("_batch", pa.array([7, 7], pa.int64()))
    valid, dead = task_writer.split_valid(rows)
    assert valid.num_rows == 1 and "_error" not in valid.column_names
    assert dead.schema.names == tables.DEAD_LETTERS_SCHEMA.names
    [letter] = dead.to_pylist()
    assert (letter["payload"], letter["_batch"], bool(letter["error"])) == (b"broken", 7, True)
    assert (letter["code"], letter["fields"]) == ("not_json", [])


def test_a_raw_message_that_was_set_aside_is_not_judged_by_its_payload():
    moments, ids = pa.array([NOW], envelope.TIMESTAMP), pa.array([b"i" * 20], pa.binary())
    page = envelope.raw_page(
        "a/t", ids, moments, pa.array([b"broken"], pa.binary()), set_aside={(b"i" * 20).hex(): "its batch failed"}
    )
    rows = pa.Table.from_batches([page]).append_column("_ingested_at", moments)
    rows = rows.append_column("_date", pa.array([NOW.date()], pa.date32()))
    _, dead = task_writer.split_valid(rows.append_column("_batch", pa.array([1], pa.int64())))
    [letter] = dead.to_pylist()
    assert (letter["code"], letter["error"], letter["payload"]) == ("other", "its batch failed", b"broken")


def test_fields_without_a_column_are_found_where_the_table_may_grow(tmp_path):
    message = upstream_message(1)
    quiet = task_writer.write(batches(message), tables.of("delta"), tmp_path / "rows", 0)
    grown = task_writer.write(batches(message), tables.of("delta"), tmp_path / "rows", 0, evolves=True)
    assert quiet.fields == {}
    assert grown.fields != {}


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, errors.Wait), (errno.EDQUOT, errors.Wait), (5, OSError)])
def test_a_full_disk_is_a_reason_to_wait(monkeypatch, tmp_path, number, kind):
    def failing(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(PartitionedFiles, "add", failing)
    with pytest.raises(kind):
        task_writer.write(batches(upstream_message(1)), tables.of("delta"), tmp_path / "rows", 0)
