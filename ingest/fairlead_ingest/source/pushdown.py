"""Uses a batch query's conditions that the service supports: topics and times of publishing.

They narrow what is fetched. Spark still checks all conditions, so the scope may be too wide, but never too narrow.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TOPIC = "_topic"
MOMENT = "_published_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadScope:
    """Topics to read (None for all), published from ``from_ms`` to before ``until_ms`` (milliseconds since 1970)."""

    topics: frozenset[str] | None = None
    from_ms: int | None = None
    until_ms: int | None = None

    def within(self, condition: tuple[str, str, Any]) -> ReadScope:
        """The scope narrowed by ``(column, relation, value)``; unsupported conditions change nothing."""
        column, relation, value = condition
        if column == TOPIC and relation in ("=", "in"):
            wanted = frozenset([value] if relation == "=" else value)
            return self._with(topics=wanted if self.topics is None else self.topics & wanted)
        if column == MOMENT and isinstance(value, datetime.datetime):
            moment = _milliseconds(value)
            # Ids have whole milliseconds, so the bounds are widened to them.
            if relation in (">", ">=", "="):
                narrowed = self._with(from_ms=moment if self.from_ms is None else max(self.from_ms, moment))
                return narrowed.within((column, "<=", value)) if relation == "=" else narrowed
            if relation in ("<", "<="):
                return self._with(until_ms=moment + 1 if self.until_ms is None else min(self.until_ms, moment + 1))
        return self

    def _with(self, **changes: Any) -> ReadScope:
        values = {"topics": self.topics, "from_ms": self.from_ms, "until_ms": self.until_ms}
        return ReadScope(**{**values, **changes})


def narrowed(scope: ReadScope, conditions: Iterable[tuple[str, str, Any]]) -> ReadScope:
    """``scope`` narrowed by all ``conditions``."""
    for condition in conditions:
        scope = scope.within(condition)
    return scope


def _milliseconds(moment: datetime.datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
    return int(aware.timestamp() * 1000)
