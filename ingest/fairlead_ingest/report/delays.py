"""How long messages took, as counts in buckets: they add up over files and days, which percentiles do not.

Twenty buckets for each power of ten, from a millisecond to a year: a quantile is right to within 12 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

PER_DECADE = 20
SECONDS_MIN = 0.001
SECONDS_MAX = 366 * 86_400.0
_LOWEST = math.floor(math.log10(SECONDS_MIN) * PER_DECADE)

Delays = Counter[int]
"""Messages by bucket."""


def buckets(micros: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The bucket of each delay in microseconds; what is below a millisecond, or negative (clocks differ), is lowest."""
    # Unsafe: a clock that is centuries behind makes numbers that floats hold with less than a microsecond's accuracy.
    seconds = pc.divide(pc.cast(micros, pa.float64(), safe=False), 1_000_000.0)
    bounded = pc.min_element_wise(pc.max_element_wise(seconds, SECONDS_MIN), SECONDS_MAX)
    return pc.cast(pc.floor(pc.multiply(pc.log10(bounded), float(PER_DECADE))), pa.int32())


def quantile(counts: Mapping[int, int], fraction: float) -> float | None:
    """Seconds that this part of the messages did not exceed: the upper bound of a bucket. None without messages.

    In the lowest bucket, 0.
    """
    total = sum(counts.values())
    if not total:
        return None
    wanted, seen, last = total * fraction, 0, 0
    for bucket in sorted(counts):
        seen, last = seen + counts[bucket], bucket
        if seen >= wanted:
            break
    return 0.0 if last <= _LOWEST else 10.0 ** ((last + 1) / PER_DECADE)
