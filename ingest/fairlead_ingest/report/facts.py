"""What the page says about a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairlead_ingest.report.layout import FileLayout
from fairlead_ingest.report.over_time import Point

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
