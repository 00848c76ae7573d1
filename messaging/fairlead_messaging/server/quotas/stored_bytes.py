"""How much each namespace holds: as it was measured, and what was stored since or is on its way.

begin ─→ (a snapshot is looked at) ─→ measured      what ends in between counts twice until the next
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class StoredBytes:
    """Sizes by namespace."""

    def __init__(self) -> None:
        self._measured: Mapping[str, int] = {}
        self._since: Counter[str] = Counter()
        """Stored since the last look began."""
        self._before: Counter[str] = Counter()
        """Stored between the last two beginnings: may not be in what was measured last."""
        self._coming: Counter[str] = Counter()

    def of(self, namespace: str) -> int:
        earlier = self._measured.get(namespace, 0) + self._before[namespace]
        return earlier + self._since[namespace] + self._coming[namespace]

    def begin(self) -> None:
        """A look at the store begins."""
        self._before += self._since
        self._since.clear()

    def measured(self, sizes: Mapping[str, int]) -> None:
        """What the look has found."""
        self._measured = dict(sizes)
        self._before.clear()

    def coming(self, namespace: str, size: int) -> None:
        self._coming[namespace] += size

    def ended(self, namespace: str, size: int, *, stored: bool) -> None:
        """What was coming is stored, or not."""
        self._coming[namespace] -= size
        if not self._coming[namespace]:
            del self._coming[namespace]
        if stored:
            self._since[namespace] += size
