"""Repairs dead letters into rows, each at most once.

    open letters ─▶ correction ─▶ judge ─▶ rows that fit ─▶ appended if missing ─▶ marks in ``<table>_repairs``

A letter always stays in its table; a mark says that its row was added. The row is committed before the mark and by
identity (``unique_append``), so a kill in between loses only the mark, and the next repair adds it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest import dead_letters, errors
from fairlead_ingest.dead_letters import FAILED, NOT_LET_THROUGH, LetterSelection, Still, Tally
from fairlead_ingest.io.letters import letters as found_letters
from fairlead_ingest.io.letters.correction import Correction, LetterJudge, Unrepaired
from fairlead_ingest.io.letters.letters import Index
from fairlead_ingest.io.sink import batch_commit, task_writer
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.io.table.unique_append import UniqueAppend
from fairlead_ingest.rows import gap_record
from fairlead_ingest.rows.fitting import unknown_fields
from fairlead_ingest.table.commit import TableState
from fairlead_ingest.table.store_path import Place

APPLICATION = "fairlead:repair"
FOUND = "found in the table"
"""The method of a mark whose row was in the table before this repair."""
_REPORTED = "it is a gap record, in which an edge agent reports messages that its disk lost; it cannot become a row"
# How often letters are judged again because the table got new columns, from this repair or another job.
GROWN_MAX = 3
# How many letters may make a transform fail before the transform is to blame; each takes about 14 tries to find.
FAILING_MAX = 20


class Repair:
    """Repairs the letters of one table.

    ``evolves``: new fields of bodies may add columns; ``rechecks``: marked letters are checked too; ``check`` is called
    in a dry run, and raises if the table cannot take rows with these columns.
    """

    def __init__(
        self,
        table_format: TableFormat,
        table: Place,
        selection: LetterSelection,
        correction: Correction,
        *,
        evolves: bool = False,
        rechecks: bool = False,
        check: Callable[[pa.Schema], None] = lambda _: None,
    ) -> None:
        self._table_format = table_format
        self._table = table
        self._correction = correction
        self._evolves = evolves
        self._check = check
        self.tally = Tally()
        self._columns: set[str] = set()
        tables.existing(table_format, table)
        state = table_format.state(table, APPLICATION)
        wanted = found_letters.index_letters(table_format, table, selection, with_repaired=rechecks)
        whole = wanted
        if correction.names is not None and not rechecks:
            whole = found_letters.index_letters(table_format, table, selection, with_repaired=True)
        self.letters = self._selected(whole, wanted, state)

    def run(
        self,
        judge: Callable[[], LetterJudge],
        *,
        dry_run: bool = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> Tally:
        """Repair the selected letters; ``judge`` is called only if there are any. Raises ``Stop``, ``Wait``."""
        if not self.letters.num_rows:
            return self.tally
        if not dry_run:
            self._table_format.ensure(tables.beside(self._table, tables.REPAIRS), tables.REPAIRS_SCHEMA)
        made: list[LetterJudge] = []

        def rules() -> LetterJudge:
            if not made:
                made.append(judge())
            return made[0]

        for window in found_letters.windows(self.letters):
            self._repair(window, rules, dry_run, progress)
        return self.tally

    # --- inside

    def _repair(
        self, window: pa.Table, rules: Callable[[], LetterJudge], dry_run: bool, progress: Callable[[int], None]
    ) -> None:
        """Repair one window of letters, few enough to remember which of them both tables hold."""
        rows = UniqueAppend(self._table_format, self._table, APPLICATION, window)
        marking: UniqueAppend | None = None
        if not dry_run:
            marks = tables.beside(self._table, tables.REPAIRS)
            marking = UniqueAppend(self._table_format, marks, APPLICATION, window)
        for chunk in found_letters.chunks(self._table_format, self._table, window):
            is_there = rows.holds(chunk)
            there, chunk_open = chunk.filter(is_there), chunk.filter(pc.invert(is_there))
            self.tally.there += there.num_rows
            corrected = self._corrected(chunk_open)
            kept = self._judged(corrected, rules(), dry_run) if corrected.num_rows else None
            if kept is not None and kept.num_rows:
                if dry_run:
                    self._check(kept.schema)
                added = kept if dry_run else self._append(rows, kept, corrected)
                self._count(kept, added)
            if marking is not None:
                self._mark(marking, rows, chunk, there)
            progress(chunk.num_rows)

    def _selected(self, whole: Index, wanted: Index, state: TableState) -> pa.Table:
        letters = wanted.letters
        names = self._correction.names
        if names is not None:
            letters = letters.filter(_among(letters, names))
            known = _among(whole.letters, names)
            self.tally.unknown = len(names) - (pc.sum(known).as_py() or 0)
        self.tally.letters = letters.num_rows
        may = dead_letters.mask(letters, state.reached)
        self.tally.unsettled = letters.num_rows - (pc.sum(may).as_py() or 0)
        return letters.filter(may)

    def _corrected(self, chunk: pa.Table) -> pa.Table:
        """The letters with the payloads to judge, without those that are left unchanged."""
        payloads: list[bytes | None] = []
        for letter in chunk.to_pylist():
            payload = None
            try:
                payload = self._correction.payload(letter)
                self.tally.kept += payload is None
            except Unrepaired as error:
                self._stays(letter, FAILED, str(error))
            payloads.append(payload)
        place = chunk.column_names.index("payload")
        corrected = chunk.set_column(place, "payload", pa.array(payloads, pa.binary()))
        return corrected.filter(pc.is_valid(corrected["payload"]))

    def _judged(self, letters: pa.Table, judge: LetterJudge, dry_run: bool) -> pa.Table:
        """The rows that now fit; other letters are counted."""
        for _ in range(GROWN_MAX):
            failures: dict[tuple[str, str], str] = {}
            good, bad = [], []
            for part in _parts(letters, judge, failures):
                fitting, rejected = task_writer.split_valid(part)
                good.append(fitting)
                if rejected.num_rows:
                    bad += rejected.select(["_topic", "_id", "code", "fields", "error"]).to_pylist()
            kept = pa.concat_tables(good) if good else letters.slice(0, 0)
            if not self._grew(kept, dry_run):
                break
        if kept.num_rows:
            kept = kept.filter(_among(kept, _names(letters)))
        kept, reported = gap_record.split(kept)
        for record in reported:
            self._stays({"_topic": record.topic, "_id": record.id}, NOT_LET_THROUGH, _REPORTED)
        for letter in bad:
            self._stays(letter, letter["code"], letter["error"], letter["fields"])
        came = {*_names(kept), *((each["_topic"], each["_id"]) for each in bad)}
        came |= {(record.topic, record.id) for record in reported}
        for letter in letters.select(["_topic", "_id"]).to_pylist():
            name = letter["_topic"], letter["_id"]
            if name in failures:
                self._stays(letter, FAILED, failures[name])
            elif name not in came:
                self._stays(letter, NOT_LET_THROUGH, "a transform of the job filters it out")
        return kept

    def _grew(self, kept: pa.Table, dry_run: bool) -> bool:
        """Whether the table got new columns for these bodies, so that they must be judged again."""
        if not self._evolves or dry_run or "body" not in kept.column_names:
            return False
        fields = unknown_fields(kept["body"].to_pylist(), kept.column_names)
        try:
            batch_commit.add_columns(self._table_format, self._table, fields)
        except errors.Wait as error:
            if error.code != errors.SCHEMA_GREW:
                raise
            return True
        return False

    def _append(self, rows: UniqueAppend, kept: pa.Table, letters: pa.Table) -> pa.Table:
        if not set(kept.schema.names) <= self._columns:
            self._table_format.ensure(self._table, kept.schema)
            self._columns = set(kept.schema.names)

        def may_still(state: TableState, _: pa.Table) -> None:
            if not pc.all(dead_letters.mask(letters, state.reached)).as_py():
                raise errors.Stop(
                    errors.TABLE_BEHIND,
                    f"{self._table}: it was restored during the repair, and its job will read some of the messages"
                    " again; run the repair again after that",
                )

        return rows.append(kept, may_still=may_still)

    def _count(self, kept: pa.Table, added: pa.Table) -> None:
        names = _names(kept)
        self.tally.repaired += len(_names(added))
        self.tally.there += len(names) - len(_names(added))

    def _mark(self, marking: UniqueAppend, rows: UniqueAppend, chunk: pa.Table, there: pa.Table) -> None:
        """Mark every letter of the chunk whose row is in the table."""
        is_in = rows.holds(chunk)
        done = chunk.filter(is_in)
        if not done.num_rows:
            return
        before = _names(there)
        methods = [
            FOUND if name in before else self._correction.method
            for name in zip(done["_topic"].to_pylist(), done["_id"].to_pylist(), strict=True)
        ]
        now = pa.scalar(datetime.datetime.now(datetime.UTC), tables.REPAIRS_SCHEMA.field("_repaired_at").type)
        columns: dict[str, Any] = {name: done[name] for name in ("code", "_topic", "_id", "_published_at", "_date")}
        columns |= {"method": pa.array(methods, pa.string()), "_repaired_at": pa.repeat(now, done.num_rows)}
        marking.append(pa.table({name: columns[name] for name in tables.REPAIRS_SCHEMA.names}))

    def _stays(self, letter: dict[str, Any], code: str, error: str, fields: Any = ()) -> None:
        self.tally.stays(
            Still(topic=letter["_topic"], id=letter["_id"], code=code, fields=tuple(fields or ()), error=error)
        )


def _parts(letters: pa.Table, judge: LetterJudge, failures: dict[tuple[str, str], str]) -> Iterator[pa.Table]:
    """Judge the letters, halving them after each failure until the letters that cause it are isolated."""
    try:
        yield judge(letters)
        return
    except errors.Fault as error:
        if letters.num_rows == 1:
            failures |= dict.fromkeys(_names(letters), str(error))
            if len(failures) > FAILING_MAX:
                raise errors.Stop(
                    errors.QUERY_FAILED, f"the transforms fail for more than {FAILING_MAX} letters: {error}"
                ) from error
            return
    middle = letters.num_rows // 2
    yield from _parts(letters.slice(0, middle), judge, failures)
    yield from _parts(letters.slice(middle), judge, failures)


def _names(rows: pa.Table) -> dict[tuple[str, str], int]:
    return dict.fromkeys(zip(rows["_topic"].to_pylist(), rows["_id"].to_pylist(), strict=True), 0)


def _among(rows: pa.Table, names: Any) -> pa.Array:
    found = []
    for part in found_letters.windows(rows.select(found_letters.IDENTITY)):
        found += [pair in names for pair in zip(part["_topic"].to_pylist(), part["_id"].to_pylist(), strict=True)]
    return pa.array(found, pa.bool_())
