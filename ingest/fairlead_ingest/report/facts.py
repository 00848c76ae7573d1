"""What the report page says about a table: sizes of its files, delays, gaps, dead letters.

A reader opens each file: it asks for its end (the footer), reads where columns lie, then asks for them. That costs the
same for a file of one row, so many small files make slow queries. What opening costs was measured at this table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fairlead_ingest.report.over_time import Point

MIB = 1024 * 1024
CLASSES = (MIB, 8 * MIB, 32 * MIB, 128 * MIB)
"""Upper bounds; one more class holds what is larger."""
TARGET_BYTES = 128 * MIB
"""What `fairlead ingest compact` aims at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSize:
    """A file that readers find; ``date`` is its partition's, ``2026-11-20``."""

    topic: str
    date: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """Files up to a size (None: larger than the largest bound)."""

    up_to: int | None
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """The files of one table. ``compacted``: how many there would be after a compaction.

    ``open_seconds``: the median of opening one, of ``opened`` that were; None where none could be.
    """

    files: int
    bytes: int
    classes: Sequence[SizeClass]
    by_day: Sequence[tuple[str, int]]
    compacted: int
    open_seconds: float | None = None
    opened: int = 0


def file_layout(found: Sequence[FileSize], *, open_seconds: float | None = None, opened: int = 0) -> FileLayout:
    """Of the files of the newest version."""
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
    """What small files cost a reader of all of it, in a sentence, and what to do about it."""
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
        return sentence + " They are as few as a compaction would leave, nearly."
    return sentence + (
        f" After `fairlead ingest compact` there would be {layout.compacted:,}: {_seconds(then)}."
        " A longer trigger makes fewer to begin with."
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


# Of dead letters that an older version wrote, which had no codes.
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityDelay:
    """How long messages of one priority took, in seconds, from the edge to messaging and to the batch."""

    priority: int | None
    rows: int
    to_messaging: tuple[float, float, float]
    to_table: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """How many dead letters have one code and are about the same fields; ``example``: the error of one of them."""

    code: str
    fields: tuple[str, ...] = ()
    rows: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportGap:
    """Messages of a topic that were never read; ``seconds`` since 1970 at which the job noticed."""

    reason: str
    topic: str
    begins: str
    ends: str
    rows: int | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPoint:
    """Seconds since 1970, and how old half and 95 % of its messages were when their rows became visible."""

    seconds: float
    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """How far the table is behind a topic now; None: not known. ``state``: ok, or why not."""

    topic: str
    state: str
    messages: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What the page says about one table."""

    name: str
    table: str
    # All of the table's.
    rows: int
    # Of the days that were asked for: everything below is about these; None days: all of them.
    counted: int = 0
    days: int | None = None
    # As `status` says it: seconds for half, and for 95 %, of what the last commits brought; None: unknown.
    fresh: tuple[float | str | None, float | str | None] = (None, None)
    # None: the service was not asked.
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
    # Of the dead letters, how many have their row now.
    repaired: int = 0
