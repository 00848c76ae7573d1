"""Rows of a plain Parquet table into a new Delta table, each once:  python from_parquet.py OLD NEW

Stop the old job first; run this again after a stop, it goes on. Then start a job with table = NEW, table_format =
"delta", a new checkpoint and starting_position = "earliest": it goes on after the highest row of each topic.
"""

import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.io.table import collisions, tables

TRIES = 20
SUFFIXES = ("", tables.DEAD_LETTERS, tables.GAPS)


def move(old: Path, new: Path) -> int:
    """How many rows were brought, of those the table lacked. A partition is brought whole or not at all."""
    moved = 0
    for suffix in SUFFIXES:
        rows = tables.of("parquet").dataset(tables.beside(old, suffix))
        if rows is None:
            continue
        into, delta = tables.beside(new, suffix), tables.of("delta")
        delta.ensure(into, rows.schema)
        held = tables.existing(delta, into)
        keys = rows.to_table(columns=["_topic", "_date"]).group_by(["_topic", "_date"]).aggregate([])
        for key in keys.sort_by([("_date", "ascending"), ("_topic", "ascending")]).to_pylist():
            mine = (pc.field("_topic") == key["_topic"]) & (pc.field("_date") == key["_date"])
            if held.count_rows(filter=mine):
                continue
            writing = delta.writing(into)
            for batch in rows.to_batches(filter=mine):
                if batch.num_rows:
                    writing.add(pa.Table.from_batches([batch]))
            files = writing.close()
            collisions.retried(into, partial(delta.append, into, files, tables.UNNUMBERED), tries=TRIES)
            moved += sum(file.rows for file in files)
    return moved


if __name__ == "__main__":
    print(move(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute()), "rows")
