"""How a table's rows lie in files, and what a reader pays for small ones.

A reader opens each file: it asks for its end (the footer), reads where columns lie, then asks for them. That costs the
same for a file of one row, so many small files make slow queries. What opening costs here was measured at this table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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


def of(found: Sequence[FileSize], *, open_seconds: float | None = None, opened: int = 0) -> FileLayout:
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


def cost(layout: FileLayout) -> str:
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
