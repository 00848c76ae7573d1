"""Keeps dead letters and gaps unique, even if a checkpoint was lost between their commit and the rows'.

They are committed before the rows, so a crash in between leaves side tables that are ahead of the rows. The same
checkpoint then tries the batch again, perhaps with other results, because messages expired or the schema changed. A new
checkpoint continues from the rows, under another name and with other batches. So dead letters are compared by identity,
and gaps by their beginning, with what the side table already has. It is read only if it is ahead of the batch, and only
from the beginning of the batch on.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.io.table import files as parquet_files
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.rows.gap_record import GapRecord
from fairlead_ingest.source import gaps
from fairlead_ingest.source.gaps import GapRow
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import commit
from fairlead_ingest.table.store_path import Place

_GAP_COLUMNS = ["_topic", *(name for name in tables.GAPS_SCHEMA.names if name[0] != "_")]


def new_dead_letters(
    table_format: TableFormat, table: Place, files: list[WrittenFile], end: Offsets
) -> list[WrittenFile]:
    """The ``files`` of the batch that ends at ``end``, rewritten without letters that ``table`` already has.

    Rewritten files leave orphans, which vacuum deletes.
    """
    known = _known(table_format, table, end, ["_topic", "_id"])
    if known is None:
        return files
    names = tables.DEAD_LETTERS_SCHEMA.names
    letters = pa.concat_tables([parquet_files.content(table, file).select(names) for file in files])
    held = set(zip(known["_topic"].to_pylist(), known["_id"].to_pylist(), strict=True))
    identities = zip(letters["_topic"].to_pylist(), letters["_id"].to_pylist(), strict=True)
    new = letters.filter(pa.array([each not in held for each in identities], pa.bool_()))
    if new.num_rows == letters.num_rows:
        return files
    writing = table_format.writing(table)
    if new.num_rows:
        writing.add(new)
    return writing.close()


def new_gaps(table_format: TableFormat, table: Place, missing: Sequence[GapRow], end: Offsets) -> list[GapRow]:
    """The part of ``missing`` that no row of ``table`` covers yet."""
    known = _known(table_format, table, end, _GAP_COLUMNS)
    if known is None:
        return list(missing)
    return gaps.beyond(missing, _gap_rows(known))


def gaps_not_held(table_format: TableFormat, table: Place, reported: Sequence[GapRow]) -> list[GapRow]:
    """The part of ``reported`` that no row of ``table`` covers, searching the whole table."""
    topics = sorted({gap.topic for gap in reported})
    held = tables.existing(table_format, table).to_table(columns=_GAP_COLUMNS, filter=pc.field("_topic").isin(topics))
    return gaps.beyond(reported, _gap_rows(held))


def gap_row(record: GapRecord) -> GapRow:
    """The row for an agent's report. Its position is that of the report, so reading it again gives the same row."""
    return GapRow(
        topic=record.topic,
        reason=record.reason,
        from_generation=0,
        from_position=record.id,
        to_generation=0,
        to_position=record.id,
        rows=record.count,
        node=record.node,
        queue=record.queue,
        from_sequence=record.from_sequence,
        to_sequence=record.to_sequence,
        count=record.count,
    )


def _gap_rows(table: pa.Table) -> list[GapRow]:
    return [GapRow(topic=row.pop("_topic"), **row) for row in table.to_pylist()]


def _known(table_format: TableFormat, table: Place, end: Offsets, columns: list[str]) -> pa.Table | None:
    """The rows of topics in which ``table`` is ahead of the beginning of the batch; None if there are none.

    A topic without a position counts as ahead, since a backfill moves no positions. After a restore, the rows may go
    further than the positions.
    """
    reached, highest = table_format.reached(table), table_format.highest_ids(table)
    ahead = [
        topic
        for topic, offset in end.topics.items()
        if topic not in reached.topics
        or commit.is_ahead(reached, topic, offset)
        or highest.get(topic, "") > offset.start_position
    ]
    if not ahead:
        return None
    condition = pc.field("_topic").isin(ahead)
    if "_id" in columns:
        condition &= pc.field("_id") > min(end.topics[topic].start_position for topic in ahead)
    return tables.existing(table_format, table).to_table(columns=columns, filter=condition)
