"""Dead letters and gaps once each, also where a checkpoint was lost between their commit and the rows'."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.support.tables.table_formats import FORMATS, ROWS_SCHEMA, catalog_of, format_of
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.io.sink.spark_sink import BatchWriter, StreamWriter
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.io.table.tables import DEAD_LETTERS, DEAD_LETTERS_SCHEMA, GAPS, GAPS_SCHEMA
from fairlead_ingest.rows import envelope
from fairlead_ingest.source.offsets import Gap, Offsets, TopicOffset
from fairlead_ingest.table.commit import Append
from fairlead_ingest.table.commit_info import BatchCounts

GOOD, BAD = upstream_message(1), b"broken"
LOST = {"queue": "iothub_Pri0", "from_sequence": 5, "to_sequence": 9, "count": 4, "reason": "checksum"}
REPORT = upstream_message(2, source="/fairlead/gaps", body=LOST)


class Stream:
    """A writer with a checkpoint it may lose; a message's id is its number, twenty times as a byte."""

    def __init__(self, sink: str, folder: Path) -> None:
        self._sink = sink
        self.table_format: TableFormat = format_of(sink, folder)
        self.folder = self._folder = folder
        self._checkpoints = 0
        for suffix, schema in (("", ROWS_SCHEMA), (DEAD_LETTERS, DEAD_LETTERS_SCHEMA), (GAPS, GAPS_SCHEMA)):
            self.table_format.ensure(folder / f"rows{suffix}", schema)
        self._writer = StreamWriter(
            table_format=sink,
            catalog=catalog_of(sink, folder),
            table=folder / "rows",
            checkpoint_path=folder / "checkpoint",
            on_expired="gap",
        )
        self.lose_checkpoint()

    def lose_checkpoint(self) -> None:
        self._checkpoints += 1
        shutil.rmtree(self._folder / "checkpoint", ignore_errors=True)
        (self._folder / "checkpoint" / "offsets").mkdir(parents=True)
        (self._folder / "checkpoint" / "metadata").write_text(f'{{"id": "q{self._checkpoints}"}}')

    def batch(self, number: int, payloads: dict[int, bytes], *, after: int = 0, gap: Gap | None = None) -> None:
        upto = max(payloads, default=after)
        place = TopicOffset(
            generation=1,
            position=position(upto),
            start_generation=1,
            start_position=position(after),
            rows=len(payloads),
            gap=gap,
        )
        end = Offsets(service="s", topics={"a/t": place})
        log = self._folder / "checkpoint" / "offsets" / str(number)
        log.write_text(f"v1\n{{}}\n{json.dumps(end.to_dict())}")
        self._writer.commit([self._writer.write(iter(page(payloads).to_batches()))], number)

    def backfill(self, payloads: dict[int, bytes]) -> None:
        writer = BatchWriter(
            table_format=self._sink, catalog=catalog_of(self._sink, self._folder), table=self._folder / "rows"
        )
        writer.commit([writer.write(iter(page(payloads).to_batches()))])

    def newest_counts(self) -> BatchCounts:
        info = self.table_format.last_entries(self._folder / "rows", 1)[0].info
        assert info is not None
        return info.counts

    def ids(self, suffix: str) -> list[str]:
        found = (
            tables.existing(self.table_format, self._folder / f"rows{suffix}")
            .to_table(columns=["_id"])["_id"]
            .to_pylist()
        )
        return sorted(found)

    def gaps(self) -> list[tuple[str, str, int | None]]:
        rows = tables.existing(self.table_format, self._folder / f"rows{GAPS}").to_table().to_pylist()
        return sorted((row["from_position"], row["to_position"], row["rows"]) for row in rows)


@pytest.fixture(params=FORMATS)
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> Stream:
    return Stream(request.param, tmp_path)


@pytest.fixture
def dying(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The process dies whenever it is about to commit rows; ``undo`` ends that."""
    append = stream.table_format.append

    def crash(table: Path, files: Sequence[WrittenFile], decided: Append) -> None:
        if table.name == "rows":
            raise SystemExit
        append(table, files, decided)

    monkeypatch.setattr(stream.table_format, "append", crash)
    return monkeypatch


def position(number: int) -> str:
    return bytes([number] * 20).hex() if number else ""


def page(payloads: dict[int, bytes]) -> pa.Table:
    now = datetime.datetime.now(datetime.UTC)
    moments = pa.array([now] * len(payloads), envelope.TIMESTAMP)
    ids = pa.array([bytes([number] * 20) for number in payloads], pa.binary())
    rows = pa.Table.from_batches([envelope.page("a/t", ids, moments, pa.array(list(payloads.values()), pa.binary()))])
    rows = rows.append_column("_ingested_at", moments)
    return rows.append_column("_date", pa.array([now.date()] * len(payloads), pa.date32()))


def test_dead_letters_of_a_lost_checkpoint_are_not_written_again(stream, dying):
    """The new checkpoint goes on from the rows; its batches may be cut elsewhere, here further on."""
    with pytest.raises(SystemExit):
        stream.batch(0, {1: GOOD, 2: BAD, 3: BAD})
    dying.undo()
    stream.lose_checkpoint()
    stream.batch(0, {1: GOOD, 2: BAD, 3: BAD, 4: BAD})
    assert stream.ids(DEAD_LETTERS) == [position(2), position(3), position(4)]
    assert stream.ids("") == [position(1)]


def restorable(sink: str, table: Path) -> Callable[[], object]:
    """Brings ``table`` back to what it is now: by Delta's own command, or as a copy of the folder."""
    if sink == "delta":
        version = DeltaTable(str(table)).version()
        return lambda: DeltaTable(str(table)).restore(version)
    backup = table.with_name(f"{table.name}.backup")
    shutil.copytree(table, backup)

    def copy_back() -> None:
        shutil.rmtree(table)
        shutil.copytree(backup, table)

    return copy_back


@pytest.mark.slow
def test_dead_letters_that_a_backfill_brought_after_a_restore_are_not_written_again(tmp_path):
    """The dead letters alone were restored and filled again, later the rows alone: the log of the first says less than
    its rows do."""
    stream = Stream("delta", tmp_path)
    stream.batch(0, {1: GOOD, 2: BAD})
    restore_rows, restore_dead = (restorable("delta", tmp_path / name) for name in ("rows", f"rows{DEAD_LETTERS}"))
    stream.batch(1, {3: GOOD, 4: BAD}, after=2)
    stream.batch(2, {5: GOOD, 6: BAD}, after=4)
    restore_dead()
    backfill = BatchWriter(table_format="delta", table=tmp_path / "rows")
    backfill.commit([backfill.write(iter(page({4: BAD, 6: BAD}).to_batches()))])
    restore_rows()
    stream.lose_checkpoint()
    stream.batch(0, {3: GOOD, 4: BAD}, after=2)
    stream.batch(1, {5: GOOD, 6: BAD, 7: BAD}, after=4)
    assert stream.ids(DEAD_LETTERS) == [position(2), position(4), position(6), position(7)]
    assert stream.ids("") == [position(1), position(3), position(5)]


def test_smaller_batches_after_a_lost_checkpoint_repeat_no_dead_letter(stream, dying):
    """The account of the dead letters never goes back, whatever is newly found before its end."""
    with pytest.raises(SystemExit):
        stream.batch(0, {1: GOOD, 2: BAD, 4: BAD})
    dying.undo()
    stream.lose_checkpoint()
    stream.batch(0, {1: BAD, 2: BAD})  # the contract is stricter now
    stream.batch(1, {3: BAD, 4: BAD}, after=2)
    assert stream.ids(DEAD_LETTERS) == [position(number) for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(("upto", "more"), [(4, []), (6, [(4, 6, 2)])])
def test_a_gap_of_a_lost_checkpoint_is_only_made_longer(stream, dying, upto, more):
    """If more has expired since, the rest is another row, and no message is missing twice."""
    with pytest.raises(SystemExit):
        stream.batch(0, {9: GOOD}, after=1, gap=Gap(reason="expired", upto=position(4), rows=3))
    dying.undo()
    stream.lose_checkpoint()
    stream.batch(0, {9: GOOD}, after=1, gap=Gap(reason="expired", upto=position(upto), rows=upto - 1))
    assert stream.gaps() == [(position(since), position(end), rows) for since, end, rows in [(1, 4, 3), *more]]


def test_what_an_agent_reports_as_lost_is_a_gap_and_no_row(stream):
    """With the words of the report; the count of the table's rows is that of messages that devices sent."""
    stream.batch(0, {1: GOOD, 2: REPORT, 3: GOOD})
    assert stream.ids("") == [position(1), position(3)]
    (row,) = tables.existing(stream.table_format, stream.folder / f"rows{GAPS}").to_table().to_pylist()
    assert {name: row[name] for name in LOST} == LOST
    assert (row["node"], row["_topic"], row["rows"], row["from_position"]) == ("edge-1", "a/t", 4, position(2))
    counts = stream.newest_counts()
    assert (counts.rows, counts.filtered, counts.expired_unread, len(counts.gaps)) == (2, 1, 0, 1)


@pytest.mark.slow
def test_reports_of_a_lost_checkpoint_are_not_written_again(stream, dying):
    """Also where batches are cut elsewhere, beside a gap of the topic, and when a backfill reads them once more."""
    with pytest.raises(SystemExit):
        stream.batch(0, {1: GOOD, 2: REPORT, 5: REPORT})
    dying.undo()
    stream.lose_checkpoint()
    stream.batch(0, {1: GOOD, 2: REPORT})
    stream.batch(1, {5: REPORT, 6: REPORT, 9: GOOD}, after=2, gap=Gap(reason="expired", upto=position(4), rows=2))
    for _ in range(2):
        stream.backfill({1: GOOD, 2: REPORT, 6: REPORT, 9: GOOD})
    reported = [(position(number), position(number), 4) for number in (2, 5, 6)]
    assert stream.gaps() == sorted([*reported, (position(2), position(4), 2)])
    assert stream.ids("") == [position(1), position(9)]


def test_a_backfill_leaves_reports_to_the_job_that_has_not_come_so_far(stream):
    """As it leaves it the rows; what the job has passed without a gap table row is brought."""
    stream.batch(0, {1: GOOD, 3: GOOD})
    stream.backfill({2: REPORT, 4: REPORT})
    assert stream.gaps() == [(position(2), position(2), 4)]
    stream.batch(1, {4: REPORT}, after=3)
    assert stream.gaps() == [(position(number), position(number), 4) for number in (2, 4)]
