"""The newest row of each key, and the bucket (file of the latest table) of a key.

The order is total: of any two rows of a key, one is newer. So rows may come in any order, in any portions and more than
once, and the result of ``newest`` is the same.

    rows ── candidates ──▶ key, order, deleted ── newest ──▶ one for each key

A key's bucket is a hash, and there are enough buckets to keep each file small:

    10,000 keys     1 bucket
    1,000,000 keys  64 buckets, or more if their rows are large

Doubling the number splits each bucket in two (``b`` and ``b + count``) and moves no other keys. The key's values are
hashed as text, so that the hash does not depend on library versions.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
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
    """For each row, its key (``k0``, …), its order (``o0``, …) and whether it deletes the key (``_deleted``)."""
    columns = {f"{KEY}{index}": rows[name] for index, name in enumerate(definition.key)}
    columns |= {f"{ORDER}{index}": _ordered(rows, name) for index, name in enumerate(definition.order)}
    columns[DELETED] = rows[DELETED] if DELETED in rows.column_names else deletes(rows, definition)
    return pa.table(columns)


def deletes(rows: pa.Table, definition: LatestDefinition) -> pa.ChunkedArray:
    """Which rows delete their key."""
    found = pa.chunked_array([pa.repeat(pa.scalar(False), rows.num_rows)])
    for name, values in definition.delete_when.items():
        if name.startswith(PROPERTY):
            # In Python 1 == True, but not in JSON, so compare the types too.
            wanted = {(type(value), value) for value in values}
            said = (_property(text, name.removeprefix(PROPERTY)) for text in rows["properties"].to_pylist())
            hits: pa.ChunkedArray | pa.Array = pa.array([(type(value), value) in wanted for value in said], pa.bool_())
        else:
            hits = pc.is_in(rows[name], value_set=pa.array(values, rows[name].type))
        found = pc.or_(found, hits)
    return found


def newest(rows: pa.Table, keys: int, order: int) -> pa.Table:
    """The newest row of each key. ``rows`` come from ``candidates``, with ``keys`` key and ``order`` order columns."""
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
    """The value of a property if it is a single value, else None."""
    try:
        raw = _properties.decode(text).get(name) if text else None
        value = None if raw is None else msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, str | int | float) else None


KEYS_MAX: Final = 16_384
"""Mean number of keys in a bucket, which is a file of some megabytes."""
BYTES_MAX: Final = 64 * 1024 * 1024
"""Mean size of a bucket's rows, uncompressed."""
BUCKETS_MAX: Final = 4096
_NULL: Final = "\x00null"


def bucket_count(keys: int, at_least: int = 1, *, row_bytes: int = 0) -> int:
    """The number of buckets for this many keys and bytes per row: a power of two times ``at_least``."""
    count = at_least
    while count < BUCKETS_MAX and (keys > count * KEYS_MAX or keys * row_bytes > count * BYTES_MAX):
        count *= 2
    return count


def bucket_of(keys: pa.Table, count: int) -> pa.Array:
    """The bucket of each row; ``keys`` has only the key's columns."""
    if count == 1:
        return pa.repeat(pa.scalar(0, pa.int32()), keys.num_rows)
    columns = [column.to_pylist() for column in keys.columns]
    return pa.array((_hash(values) % count for values in zip(*columns, strict=True)), pa.int32())


def split_bucket(bucket: int, count: int, wider: int) -> Iterator[int]:
    """The buckets that get the keys of one bucket when ``count`` buckets become ``wider``."""
    yield from range(bucket, wider, count)


def rounds(rows: dict[int, int], most: int) -> Iterator[list[int]]:
    """Group buckets (with their numbers of rows) into rounds of at most ``most`` rows, at least one bucket each."""
    taken: list[int] = []
    total = 0
    for bucket, number in sorted(rows.items()):
        if taken and total + number > most:
            yield taken
            taken, total = [], 0
        taken.append(bucket)
        total += number
    if taken:
        yield taken


def _hash(values: tuple[object, ...]) -> int:
    text = "\x1f".join(_NULL if value is None else str(value) for value in values)
    return zlib.crc32(text.encode(errors="surrogatepass"))
