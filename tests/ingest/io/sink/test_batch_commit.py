"""Committing a batch: its counts, new columns, and backfills that run at the same time or are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.kills import backfill_steps
from tests.support.kills.backfill_steps import BROKEN, MESSAGES
from tests.support.tables.table_formats import FORMATS, format_of

from fairlead_ingest import errors
from fairlead_ingest.io.sink import batch_commit
from fairlead_ingest.io.sink.task_writer import Written
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.source.offsets import Gap, Offsets, TopicOffset
from fairlead_ingest.table.commit_info import BatchCounts

SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])


@pytest.fixture(params=FORMATS)
def table_format(request: pytest.FixtureRequest, tmp_path: Path) -> TableFormat:
    return format_of(request.param, tmp_path)


def file(rows: int, topic: str = "a/t") -> WrittenFile:
    return WrittenFile(path="p", size=100, rows=rows, topic=topic, date="2026-11-22")


END = Offsets(
    service="s",
    topics={
        "a/t": TopicOffset(generation=1, position="0f", rows=10, gap=Gap(reason="expired", upto="0a", rows=4)),
        "b/t": TopicOffset(generation=1, position="0f", rows=3),
    },
)


def test_what_was_promised_and_came_neither_as_row_nor_dead_letter_is_missing():
    assert batch_commit.missing_rows(END, [file(6), file(1), file(3, "b/t")], {"a/t": 1}, {"a/t": 1}) == {"a/t": 1}
    assert batch_commit.missing_rows(END, [file(10), file(3, "b/t")], {}, {}) == {}


@pytest.mark.parametrize(("selects", "filtered", "expired"), [(False, 0, 6), (True, 2, 4)])
def test_what_is_missing_expired_or_was_filtered_by_the_query(selects, filtered, expired):
    """A query that leaves rows out by itself cannot be told from messages that expired."""
    written = [Written(ages=[1, 2]), Written(ages=[3])]
    found = batch_commit.counts_of(END, [file(8), file(2)], [file(1)], written, [], 2, selects=selects)
    assert (found.filtered, found.expired_unread) == (filtered, expired)
    assert (found.rows, found.dead_letters, found.bytes, found.expired_starts) == (10, 1, 200, 1)
    assert found.ages[:2] == [4, 2]
    assert found != BatchCounts()


def test_new_columns_are_added_once_and_the_batch_is_read_again(table_format, tmp_path):
    table_format.ensure(tmp_path / "rows", SCHEMA)
    with pytest.raises(errors.Wait, match=rf"{errors.SCHEMA_GREW}: .*new columns warm"):
        batch_commit.add_columns(table_format, tmp_path / "rows", {"warm": "double"})
    batch_commit.add_columns(table_format, tmp_path / "rows", {"warm": "double"})
    batch_commit.add_columns(table_format, tmp_path / "rows", {})
    assert "warm" in tables.existing(table_format, tmp_path / "rows").schema.names


ROOT = Path(__file__).resolve().parents[4]
# Fewer would mean that the steps are no longer seen.
KILLS_MIN = 6


@pytest.mark.verify
@pytest.mark.faults
@pytest.mark.process
@pytest.mark.parametrize(("kind", "every"), [("delta", 7), ("iceberg", 23)])
def test_two_at_once_one_killed_anywhere_and_run_again_bring_each_message_once(kind, every, tmp_path):
    arguments = [sys.executable, "-m", backfill_steps.__name__, kind, str(tmp_path), str(every)]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=280, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    killed = [each for each in found if each["killed"]]
    assert [each["step"] for each in killed] == list(range(1, killed[0]["of"] + 1, every))
    assert len(killed) >= KILLS_MIN
    for each in found:
        assert not each["ended"], each["trace"]
        assert each["rows"] == sorted(set(range(MESSAGES)) - BROKEN), each
        assert each["letters"] == sorted(BROKEN), each
