"""Of rows, the newest of each key.

The order is total: of any two rows of one key one is newer, whatever else is there. So rows may come in any order, in
any portions and more than once: ``newest`` of it all is the same.

    rows ── candidates ──▶ key, order, deleted ── newest ──▶ one for each key
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.latest.definition import DELETED, PROPERTY, LatestDefinition

KEY: Final = "k"
ORDER: Final = "o"
_NUMBER: Final = "n"
_properties = msgspec.json.Decoder(dict[str, msgspec.Raw])


def candidates(rows: pa.Table, definition: LatestDefinition) -> pa.Table:
    """For each row its key (``k0``, …), its place in the order (``o0``, …) and whether it deletes (``_deleted``)."""
    columns = {f"{KEY}{index}": rows[name] for index, name in enumerate(definition.key)}
    columns |= {f"{ORDER}{index}": _ordered(rows, name) for index, name in enumerate(definition.order)}
    columns[DELETED] = rows[DELETED] if DELETED in rows.column_names else deletes(rows, definition)
    return pa.table(columns)


def deletes(rows: pa.Table, definition: LatestDefinition) -> pa.ChunkedArray:
    """Which rows take their key out."""
    found = pa.chunked_array([pa.repeat(pa.scalar(False), rows.num_rows)])
    for name, values in definition.delete_when.items():
        if name.startswith(PROPERTY):
            # 1 and true are equal to Python, and not to those who write JSON.
            wanted = {(type(value), value) for value in values}
            said = (_property(text, name.removeprefix(PROPERTY)) for text in rows["properties"].to_pylist())
            hits: pa.ChunkedArray | pa.Array = pa.array([(type(value), value) in wanted for value in said], pa.bool_())
        else:
            hits = pc.is_in(rows[name], value_set=pa.array(values, rows[name].type))
        found = pc.or_(found, hits)
    return found


def newest(rows: pa.Table, keys: int, order: int) -> pa.Table:
    """One row for each key; ``rows`` of ``candidates``, with any columns more; so many columns of key, and of order."""
    if not rows.num_rows:
        return rows
    by = [(f"{ORDER}{index}", "descending") for index in range(order)]
    ordered = rows.take(pc.sort_indices(rows, sort_keys=by))
    names = [f"{KEY}{index}" for index in range(keys)]
    numbered = ordered.select(names).append_column(_NUMBER, pa.array(np.arange(rows.num_rows)))
    first = numbered.group_by(names, use_threads=False).aggregate([(_NUMBER, "min")])
    return ordered.take(first[f"{_NUMBER}_min"])


def _ordered(rows: pa.Table, name: str) -> pa.ChunkedArray:
    if name != "enqueued_at":
        return rows[name]
    return pc.if_else(pc.greater(rows[name], rows["_published_at"]), rows["_published_at"], rows[name])


def _property(text: str | None, name: str) -> object:
    """A property that is a single value; None where there is none."""
    try:
        raw = _properties.decode(text).get(name) if text else None
        value = None if raw is None else msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, str | int | float) else None
