"""A job, backfills and repairs on one table, without Spark; commits use the program's own code.

    messages ── job: batches of letters, then rows ──▶ table and its dead letters ◀── repair, backfill

``unfit`` names the messages that the current rules refuse; removing one corresponds to fixing a schema.
"""

from __future__ import annotations

import datetime
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from tests.support.tables.table_formats import ROWS_SCHEMA

from fairlead_ingest.dead_letters import LetterSelection, Tally
from fairlead_ingest.io.letters import correction
from fairlead_ingest.io.letters.repair import Repair
from fairlead_ingest.io.sink import task_writer
from fairlead_ingest.io.sink.batch_commit import BatchCommit, append_backfill
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.rows import envelope
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit import Append
from fairlead_ingest.table.commit_info import BatchCounts
from fairlead_ingest.table.store_path import Place

TOPIC = "default/odd name=%"
BEGIN = datetime.datetime(2026, 11, 20, 23, 59, 50, tzinfo=datetime.UTC)
MISFIT = "does not fit today"


def moment(number: int) -> datetime.datetime:
    return BEGIN + datetime.timedelta(seconds=number)


def name(number: int) -> str:
    """A message id as the service creates them."""
    return f"{int(moment(number).timestamp() * 1000):016x}{'0' * 24}"


def payload(number: int, **changes: Any) -> bytes:
    fields = {"id": f"m{number}", "node": "n", "epoch": 1, "stream": "s", "sequence": number, "body": {"v": number}}
    return msgspec.json.encode({**fields, **changes})


class Killed(Exception):
    """Stands for SIGKILL: the program does not catch it."""


class World:
    """``before``, ``after``: called with the table around each commit; may raise ``Killed`` or commit more."""

    def __init__(self, table_format: TableFormat, table: Place) -> None:
        self.real = table_format
        self.table = table
        self.unfit: set[int] = set()
        self.payloads: dict[int, bytes] = {}
        self.before: Callable[[Place], None] = lambda _: None
        self.after: Callable[[Place], None] = lambda _: None
        self.format: Any = _Watched(self)
        for place, schema in (
            (table, ROWS_SCHEMA),
            (tables.beside(table, tables.DEAD_LETTERS), tables.DEAD_LETTERS_SCHEMA),
        ):
            table_format.ensure(place, schema)
        self.batch = -1
        self.reached = -1

    def publish(self, payloads: dict[int, bytes]) -> None:
        self.payloads |= payloads

    def judge(self, letters: pa.Table) -> pa.Table:
        """Check a message as the job would, with the current rules."""
        aside = {name(number): MISFIT for number in self.unfit}
        plain = correction.pages(letters, functools.partial(envelope.page, set_aside=aside))
        now = pa.repeat(pa.scalar(BEGIN, envelope.TIMESTAMP), plain.num_rows)
        plain = plain.append_column("_ingested_at", now)
        return correction.numbered(plain.append_column("_date", plain["_published_at"].cast(pa.date32())))

    def run_job(self, upto: int, *, begin_again: bool = False) -> None:
        """The next batch, or the last one again: its dead letters, then its rows."""
        batch = self.batch if begin_again else self.batch + 1
        first = self.reached + 1
        numbers = [number for number in sorted(self.payloads) if first <= number <= upto]
        rows, dead = self._written(numbers, batch)
        end = Offsets(
            service="s",
            topics={
                TOPIC: TopicOffset(
                    generation=1,
                    position=name(upto),
                    start_generation=1,
                    start_position=name(self.reached) if self.reached >= 0 else "",
                    rows=len(numbers),
                )
            },
        )
        batch_commit = BatchCommit(table_format=self.format, application="fairlead:job", number=batch, end=end)
        self.batch = batch
        if not batch_commit.is_in(self.table):
            batch_commit.append_dead_letters(tables.beside(self.table, tables.DEAD_LETTERS), dead)
            batch_commit.append(self.table, rows, BatchCounts(rows=len(numbers)))
        self.reached = upto

    def backfill(self, *, at_a_time: int = 1000, jobless: bool = False) -> None:
        """Add missing rows as `fairlead ingest backfill` does, range after range: everything that the job has passed;
        `jobless`: everything, if no job has begun."""
        upto = commit.left_to_job(self.real.state(self.table, "")).get(TOPIC)
        if upto is None:
            upto = "~" if jobless else ""
        wanted = [each for each in sorted(self.payloads) if name(each) <= upto]
        for begin in range(0, len(wanted), at_a_time):
            held: set[str] = set()
            for place in (self.table, tables.beside(self.table, tables.DEAD_LETTERS)):
                held |= set(tables.identities(self.real, place, None, None)["_id"].to_pylist())
            numbers = [each for each in wanted[begin : begin + at_a_time] if name(each) not in held]
            rows, dead = self._written(numbers, task_writer.NO_BATCH)
            append_backfill(self.format, self.table, rows, dead)

    def repair(
        self, how: correction.Correction | None = None, selection: LetterSelection | None = None, **more: Any
    ) -> Tally:
        dry_run = more.pop("dry_run", False)
        found = Repair(self.format, self.table, selection or LetterSelection(), how or correction.Rejudged(), **more)
        return found.run(lambda: self.judge, dry_run=dry_run)

    def rows(self) -> Counter[str]:
        """The identity of each row, including duplicates."""
        return Counter(tables.existing(self.real, self.table).to_table(columns=["_id"])["_id"].to_pylist())

    def bodies(self) -> dict[str, str]:
        found = tables.existing(self.real, self.table).to_table(columns=["_id", "body"]).to_pylist()
        return {row["_id"]: row["body"] for row in found}

    def letters(self) -> Counter[str]:
        place = tables.beside(self.table, tables.DEAD_LETTERS)
        return Counter(tables.existing(self.real, place).to_table(columns=["_id"])["_id"].to_pylist())

    def marks(self) -> Counter[str]:
        found = self.real.dataset(tables.beside(self.table, tables.REPAIRS))
        return Counter() if found is None else Counter(found.to_table(columns=["_id"])["_id"].to_pylist())

    def _written(self, numbers: Sequence[int], batch: int) -> tuple[list[WrittenFile], list[WrittenFile]]:
        if not numbers:
            return [], []
        raw = pa.table(
            {
                "_topic": [TOPIC] * len(numbers),
                "_id": [name(number) for number in numbers],
                "_published_at": pa.array([moment(number) for number in numbers], envelope.TIMESTAMP),
                "payload": pa.array([self.payloads[number] for number in numbers], pa.binary()),
            }
        )
        judged = self.judge(raw)
        judged = judged.drop_columns(["_batch"])
        written = task_writer.write(iter(judged.to_batches()), self.real, self.table, batch)
        return written.rows, written.dead


class _Watched:
    """The table format, which calls the world before and after each commit."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._world.real, attribute)

    def append(self, table: Place, files: Sequence[WrittenFile], decided: Append) -> None:
        self._world.before(table)
        self._world.real.append(table, files, decided)
        self._world.after(table)
