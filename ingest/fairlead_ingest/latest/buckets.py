"""In which file of a latest table a key lies: by a hash, in as many buckets as keep each file small.

    10,000 keys     1 bucket
    1,000,000 keys  64 buckets, or more where their rows are large

Doubling splits each bucket in two (``b`` and ``b + count``) and moves no key anywhere else. The hash is of the key's
values as text, so that it is the same in every version of every library.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

KEYS_MAX: Final = 16_384
"""Of one bucket, in the mean: a file of some megabytes."""
BYTES_MAX: Final = 64 * 1024 * 1024
"""Of its rows, uncompressed, in the mean."""
BUCKETS_MAX: Final = 4096
_NULL: Final = "\x00null"


def count_for(keys: int, at_least: int = 1, *, row_bytes: int = 0) -> int:
    """Buckets for so many keys whose rows have these bytes each: a power of two, never fewer than there are."""
    count = at_least
    while count < BUCKETS_MAX and (keys > count * KEYS_MAX or keys * row_bytes > count * BYTES_MAX):
        count *= 2
    return count


def of(keys: pa.Table, count: int) -> pa.Array:
    """Each row's bucket; ``keys`` has the key's columns and no others."""
    if count == 1:
        return pa.repeat(pa.scalar(0, pa.int32()), keys.num_rows)
    columns = [column.to_pylist() for column in keys.columns]
    return pa.array((_hash(values) % count for values in zip(*columns, strict=True)), pa.int32())


def split(bucket: int, count: int, wider: int) -> Iterator[int]:
    """Where the keys of one bucket of ``count`` lie when there are ``wider``."""
    yield from range(bucket, wider, count)


def rounds(rows: dict[int, int], most: int) -> Iterator[list[int]]:
    """Buckets to be worked on together: rows by bucket, so many rows at a time or one bucket."""
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
