"""Rates and lags of topics, computed from two samples of messaging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

TOPICS_MAX = 50
"""Topics sampled, in alphabetical order."""
SMOOTHING = 0.5
"""Weight of a new rate in the displayed average."""


READER_LAG_SECONDS = 900
"""A reader whose oldest unread message is older needs attention.  The alert FairleadReaderBehind uses the same
limit."""


class ReaderLag(NamedTuple):
    """How far a named reader is behind.  For an ingest job, that is how fresh its table is."""

    name: str
    messages: int
    seconds: float
    since: int = 0
    """When its oldest unread message was stored, in seconds since 1970; 0 if it has read everything."""
    updated: int = 0
    """When it last reported its position, in seconds since 1970."""

    @property
    def is_lagging(self) -> bool:
        return self.messages > 0 and self.seconds > READER_LAG_SECONDS


class TopicSample(NamedTuple):
    """One topic at one moment."""

    topic: str
    generation: int
    passed: int
    """Messages it has ever held."""
    at: float
    readers: tuple[ReaderLag, ...]


class TopicLine(NamedTuple):
    """One topic as one row."""

    topic: str
    passed: int
    rate: float | None
    """Messages per second; None after a single sample."""
    readers: tuple[ReaderLag, ...]


class TopicsSeen(NamedTuple):
    """What the pages show about topics."""

    is_configured: bool
    lines: tuple[TopicLine, ...] = ()
    error: str = ""
    """Why messaging could not be queried.  Earlier results stay."""
    more: int = 0
    """Number of topics that were not sampled."""


def lines(
    before: Mapping[str, TopicSample], rates: Mapping[str, float | None], now: Sequence[TopicSample]
) -> list[TopicLine]:
    """``rates`` are those shown so far.  A recreated topic starts over."""
    return [TopicLine(each.topic, each.passed, _rate(before, rates, each), each.readers) for each in now]


def _rate(before: Mapping[str, TopicSample], rates: Mapping[str, float | None], now: TopicSample) -> float | None:
    last = before.get(now.topic)
    if last is None or last.generation != now.generation or now.at <= last.at:
        return None
    new = max(0, now.passed - last.passed) / (now.at - last.at)
    shown = rates.get(now.topic)
    rate = new if shown is None else shown + SMOOTHING * (new - shown)
    return rate if rate >= 0.005 else 0.0
