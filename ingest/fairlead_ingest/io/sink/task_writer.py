"""One task of a sink: writes files of good rows and of dead letters, and collects gap records and counts."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.rows import contract as contract
from fairlead_ingest.rows import envelope, fitting, gap_record, letter_code, transforms
from fairlead_ingest.rows.gap_record import GapRecord
from fairlead_ingest.table import commit_info
from fairlead_ingest.table.store_path import Place
from fairlead_wire.errors import cause_of
from fairlead_wire.traces.trace import LINKS_MAX

# The batch number of rows that belong to no batch of a stream, such as those of a backfill.
NO_BATCH = -1


@dataclass
class Written(WriterCommitMessage):
    """The result of one task."""

    rows: list[WrittenFile] = field(default_factory=list)
    dead: list[WrittenFile] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    # Type by name of body fields without a column; only if the table evolves.
    fields: dict[str, str] = field(default_factory=dict)
    # Sampled traces of its messages, and whether each is late; only if spans are recorded.
    traces: list[tuple[str, bool]] = field(default_factory=list)
    began_ns: int = 0
    ended_ns: int = 0
    # Losses that edge agents reported; they become no rows of the table.
    gap_records: list[GapRecord] = field(default_factory=list)


def write(
    iterator: Iterator[pa.RecordBatch],
    table_format: TableFormat,
    table: Place,
    batch: int,
    *,
    evolves: bool = False,
    is_traced: bool = False,
) -> Written:
    began_ns = time.time_ns()
    good = table_format.writing(table)
    dead = table_format.writing(tables.beside(table, tables.DEAD_LETTERS))
    ages: list[list[int]] = []
    fields: dict[str, str] = {}
    traces: list[tuple[str, bool]] = []
    records: list[GapRecord] = []
    try:
        for record_batch in iterator:
            if is_traced and len(traces) < LINKS_MAX:
                traces += transforms.find(record_batch, time.time(), LINKS_MAX - len(traces))
            rows = pa.Table.from_batches([record_batch])
            # The position in the table's schema; Spark does not know the batch number in a query.
            rows = rows.add_column(
                rows.column_names.index("_date"), "_batch", pa.repeat(pa.scalar(batch, pa.int64()), rows.num_rows)
            )
            kept, rejected = split_valid(rows)
            kept, found_records = gap_record.split(kept, gap_record.RECORDS_MAX - len(records))
            records += found_records
            if kept.num_rows:
                ages.append(_ages(kept, time.time()))
                good.add(kept)
                if evolves and "body" in kept.column_names:
                    found = fitting.unknown_fields(kept["body"].to_pylist(), kept.column_names)
                    fields = fitting.merge_fields([fields, found])
            if rejected.num_rows:
                dead.add(rejected)
        return Written(
            rows=good.close(),
            dead=dead.close(),
            ages=commit_info.add_ages(ages),
            fields=fields,
            traces=traces,
            began_ns=began_ns,
            ended_ns=time.time_ns(),
            gap_records=records,
        )
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise errors.Wait(errors.DISK_FULL, f"{table}: {cause_of(error)}") from error
        raise


def seconds_of(written: Sequence[Written]) -> float:
    """Seconds from the start of the first task to the end of the last one."""
    if not written:
        return 0.0
    return (max(task.ended_ns for task in written) - min(task.began_ns for task in written)) / 1e9


def split_valid(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Split into good rows without passenger columns, and dead letters with the columns of their table."""
    if "_error" not in rows.column_names:
        return rows, rows.slice(0, 0)
    bad = pc.is_valid(rows["_error"])
    if not pc.any(bad).as_py():
        return rows.drop_columns(list(transforms.PASSENGERS)), rows.slice(0, 0)
    kept = rows.filter(pc.invert(bad)).drop_columns(list(transforms.PASSENGERS))
    rejected = rows.filter(bad)
    # Check typed columns only for null, and never read their values: Python cannot represent every date.
    plain = [name for name in envelope.LETTER_COLUMNS if name in rejected.column_names]
    letters = rejected.select(plain).to_pylist()
    payloads = [
        envelope.payload_again(letter) if letter["_payload"] is None else letter["_payload"] for letter in letters
    ]
    typed = [name for name in kept.column_names if name not in contract.OWN_COLUMNS]
    nulls = [(name, pc.is_null(rejected[name]).to_pylist()) for name in typed]
    is_decoded = set(envelope.PAGE_SCHEMA.names) <= set(rows.column_names)  # else the payload is no upstream message
    reasons, codes = [], []
    for index, letter in enumerate(letters):
        empty = {name for name, is_null in nulls if is_null[index]}
        told = contract.misfit(letter["_error"], letter.get("body"), empty)
        reasons.append(letter["_error"] if told is None else told[0])
        codes.append(letter_code.of(letter["_payload"] if is_decoded else None, told and told[1]))
    columns = {name: rejected[name] for name in tables.DEAD_LETTERS_SCHEMA.names if name.startswith("_")}
    columns |= {
        "error": pa.array(reasons, pa.string()),
        "payload": pa.array(payloads, pa.binary()),
        "code": pa.array([each.code for each in codes], pa.string()),
        "fields": pa.array([list(each.fields) for each in codes], pa.list_(pa.string())),
    }
    return kept, pa.table({name: columns[name] for name in tables.DEAD_LETTERS_SCHEMA.names})


def _ages(rows: pa.Table, now: float) -> list[int]:
    if "enqueued_at" not in rows.column_names:
        return []
    moment = pa.scalar(int(now * 1_000_000), pa.timestamp("us", tz="UTC"))
    micros = pc.cast(pc.subtract(moment, rows["enqueued_at"].drop_null()), pa.int64())
    counts, below = [], 0
    for bound in commit_info.AGE_BUCKETS:
        upto = pc.sum(pc.less_equal(micros, int(bound * 1_000_000))).as_py() or 0
        counts.append(upto - below)
        below = upto
    return [*counts, len(micros) - below]
