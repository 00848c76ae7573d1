"""Rates and lags of topics: two looks at messaging, and what follows from their difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

TOPICS_MAX = 50
"""Topics looked at; the alphabetically first."""
SMOOTHING = 0.5
"""Of a new rate in the one that is shown."""


READER_LAG_SECONDS = 900
"""A reader whose oldest unread message is older needs attention; the alert FairleadReaderBehind uses the same limit."""


class ReaderLag(NamedTuple):
    """How far a named reader is behind: for an ingest job, how fresh its table is."""

    name: str
    messages: int
    seconds: float
    since: int = 0
    """Seconds since 1970 when its oldest unread message was stored; 0: it has read everything."""
    updated: int = 0
    """Seconds since 1970 when it last reported its position."""

    @property
    def is_lagging(self) -> bool:
        return self.messages > 0 and self.seconds > READER_LAG_SECONDS


class TopicLook(NamedTuple):
    """One topic at one moment."""

    topic: str
    generation: int
    passed: int
    """Messages it had ever held."""
    at: float
    readers: tuple[ReaderLag, ...]


class TopicLine(NamedTuple):
    """One topic as one row."""

    topic: str
    passed: int
    rate: float | None
    """Messages a second; None: one look does not tell."""
    readers: tuple[ReaderLag, ...]


class TopicsSeen(NamedTuple):
    """What the pages say about topics."""

    is_configured: bool
    lines: tuple[TopicLine, ...] = ()
    error: str = ""
    """Why messaging could not be asked; what was known before stays."""
    more: int = 0
    """Topics that were not looked at."""


def lines(
    before: Mapping[str, TopicLook], rates: Mapping[str, float | None], now: Sequence[TopicLook]
) -> list[TopicLine]:
    """``rates`` as they were shown; a topic that was made anew begins again."""
    return [TopicLine(each.topic, each.passed, _rate(before, rates, each), each.readers) for each in now]


def _rate(before: Mapping[str, TopicLook], rates: Mapping[str, float | None], now: TopicLook) -> float | None:
    last = before.get(now.topic)
    if last is None or last.generation != now.generation or now.at <= last.at:
        return None
    new = max(0, now.passed - last.passed) / (now.at - last.at)
    shown = rates.get(now.topic)
    rate = new if shown is None else shown + SMOOTHING * (new - shown)
    return rate if rate >= 0.005 else 0.0
