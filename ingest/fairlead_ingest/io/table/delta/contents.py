"""What is in a Delta table: its files, its rows, what statistics say of them."""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fairlead_ingest.io.table.delta import opened
from fairlead_ingest.io.table.table_format import Size
from fairlead_ingest.table.store_path import Place


def size(table: Place) -> Size | None:
    """What the log says is in the table, None where there is none."""
    found = opened.open_table(table)
    if found is None:
        return None
    actions = pa.table(found.get_add_actions(flatten=True))
    return Size(
        version=found.version(),
        files=actions.num_rows,
        rows=pc.sum(actions["num_records"]).as_py() or 0,
        bytes=pc.sum(actions["size_bytes"]).as_py() or 0,
    )


def files(table: Place) -> list[tuple[str, str]]:
    """(path, topic) of every file, oldest first."""
    found = opened.open_table(table)
    if found is None:
        return []
    actions = pa.table(found.get_add_actions(flatten=True)).select(["path", "partition._topic"])
    # The log quotes the names it finds on disk.
    return [(unquote(path), topic) for path, topic in zip(*(column.to_pylist() for column in actions), strict=True)]


def highest_ids(table: Place) -> dict[str, str]:
    """By topic, the highest id that the statistics of its files say."""
    found = opened.open_table(table)
    actions = None if found is None else pa.table(found.get_add_actions(flatten=True))
    if actions is None or not {"max._id", "partition._topic"} <= set(actions.column_names):
        return {}
    highest = (
        actions.select(["max._id", "partition._topic"]).group_by("partition._topic").aggregate([("max._id", "max")])
    )
    topics, ids = (highest[name].to_pylist() for name in ("partition._topic", "max._id_max"))
    return {topic: last for topic, last in zip(topics, ids, strict=True) if last is not None}


def dataset(table: Place) -> ds.Dataset | None:
    """The rows of the newest version, None where there is no table."""
    found = opened.open_table(table)
    if found is None:
        return None
    if not found.file_uris():
        # A dataset of no files has no schema of its own.
        return ds.dataset(pa.schema(found.schema().to_arrow()).empty_table())
    return opened.rows(table, found)
