"""The facts about a table on the report page: sizes of its files, delays, gaps, dead letters.

A reader opens each file: it reads the footer, which says where the columns are, and then the columns. That takes the
same time for a file of one row, so many small files make queries slow. The time is measured on this table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fairlead_ingest.report.over_time import Point

MIB = 1024 * 1024
CLASSES = (MIB, 8 * MIB, 32 * MIB, 128 * MIB)
"""Upper bounds of size classes; one more class has the larger files."""
TARGET_BYTES = 128 * MIB
"""The target size of ``fairlead ingest compact``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSize:
    """A file of the newest version; ``date`` is its partition's, such as ``2026-11-20``."""

    topic: str
    date: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """The files up to a size; None for files above the largest bound."""

    up_to: int | None
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """The files of one table. ``compacted`` is how many there would be after a compaction.

    ``open_seconds`` is the median time to open one of ``opened`` files, None if none was opened.
    """

    files: int
    bytes: int
    classes: Sequence[SizeClass]
    by_day: Sequence[tuple[str, int]]
    compacted: int
    open_seconds: float | None = None
    opened: int = 0


def file_layout(found: Sequence[FileSize], *, open_seconds: float | None = None, opened: int = 0) -> FileLayout:
    """The layout of the files of the newest version."""
    counts, sizes = [0] * (len(CLASSES) + 1), [0] * (len(CLASSES) + 1)
    partitions: Counter[tuple[str, str]] = Counter()
    for each in found:
        index = next((at for at, bound in enumerate(CLASSES) if each.bytes <= bound), len(CLASSES))
        counts[index] += 1
        sizes[index] += each.bytes
        partitions[each.topic, each.date] += each.bytes
    return FileLayout(
        files=len(found),
        bytes=sum(sizes),
        classes=[
            SizeClass(up_to=bound, files=files, bytes=size)
            for bound, files, size in zip((*CLASSES, None), counts, sizes, strict=True)
        ],
        by_day=sorted(Counter(each.date for each in found).items()),
        compacted=sum(max(1, math.ceil(size / TARGET_BYTES)) for size in partitions.values()),
        open_seconds=open_seconds,
        opened=opened,
    )


def read_cost(layout: FileLayout) -> str:
    """A sentence about what small files cost a reader of the whole table, and what to do about it."""
    if not layout.files:
        return "There are no files yet."
    if layout.open_seconds is None:
        return f"A reader of everything opens {layout.files:,} files; a compaction would leave {layout.compacted:,}."
    now, then = layout.files * layout.open_seconds, layout.compacted * layout.open_seconds
    sentence = (
        f"Opening a file takes {layout.open_seconds * 1000:,.3g} ms here (median of {layout.opened}), so a reader of"
        f" everything spends {_seconds(now)} of one thread's time on opening {layout.files:,} files."
    )
    if layout.files < 2 * layout.compacted:
        return sentence + " A compaction would leave nearly as many."
    return sentence + (
        f" After `fairlead ingest compact` there would be {layout.compacted:,}: {_seconds(then)}."
        " A longer trigger writes fewer files."
    )


def size_text(count: int) -> str:
    """Bytes for people: 512 B, 3.4 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2f} s"


# Stands for the missing code of dead letters that an older version wrote.
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityDelay:
    """Delays of one priority's messages in seconds (p50, p95, p99), from the edge to messaging and to the batch."""

    priority: int | None
    rows: int
    to_messaging: tuple[float, float, float]
    to_table: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """The number of dead letters with one code and the same fields; ``example`` is the error of one of them."""

    code: str
    fields: tuple[str, ...] = ()
    rows: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportGap:
    """Messages of a topic that were never read; ``seconds`` since 1970 is when the job noticed."""

    reason: str
    topic: str
    begins: str
    ends: str
    rows: int | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPoint:
    """A commit's time in seconds since 1970, and the ages of its messages when their rows became visible."""

    seconds: float
    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """The table's current lag behind a topic, None if unknown; ``state`` is ok or says why not."""

    topic: str
    state: str
    messages: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The facts about one table."""

    name: str
    table: str
    # Rows of the whole table.
    rows: int
    # Rows of the selected days; everything below is about these. ``days`` is None for all days.
    counted: int = 0
    days: int | None = None
    # The age in seconds of half, and of 95 %, of the messages in the last commits; None if unknown.
    fresh: tuple[float | str | None, float | str | None] = (None, None)
    # None if the service was not asked.
    lags: Sequence[TopicLag] | None = None
    points: Sequence[Point] = ()
    commits: Sequence[CommitPoint] = ()
    layout: FileLayout | None = None
    by_node: Sequence[tuple[str, int]] = ()
    by_hour: Sequence[tuple[str, int]] = ()
    by_priority: Sequence[tuple[str, int]] = ()
    delays: Sequence[PriorityDelay] = ()
    gaps: Sequence[ReportGap] = ()
    dead_letters: Sequence[LetterCount] = ()
    # How many of the dead letters are repaired.
    repaired: int = 0
