"""Limits log lines for a repeated event: one at first, then one per interval."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

KEYS_MAX: Final = 1024


class LogLimiter:
    """At most one line per key in ``every_seconds``; beyond ``keys_max`` keys the oldest is forgotten."""

    def __init__(self, every_seconds: float, *, keys_max: int = KEYS_MAX) -> None:
        self._every_seconds = every_seconds
        self._keys_max = keys_max
        self._logged: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def due(self, key: Hashable, now: float) -> int | None:
        """Occurrences since the last line, including this one; None: do not log it now."""
        at, skipped = self._logged.get(key, (float("-inf"), 0))
        if now - at < self._every_seconds:
            self._logged[key] = at, skipped + 1
            return None
        self._logged[key] = now, 0
        self._logged.move_to_end(key)
        if len(self._logged) > self._keys_max:
            self._logged.popitem(last=False)
        return skipped + 1
