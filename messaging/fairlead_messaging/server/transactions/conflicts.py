"""Conflict detection: which keys were committed while others were open; of two that changed one, only one commits.

A key is remembered as a digest, and only while a transaction is open that began before it was committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import islice

DIGEST_BYTES = 8
"""Two keys that are alike in it by chance are a conflict that was none."""
COMMITTED_MAX = 1_000_000
"""Keys remembered.  Beyond it the oldest are forgotten, and a transaction begun before they were committed is in
conflict with whatever it changed."""
FORGOTTEN_MAX = 50_000
"""Keys forgotten in one turn; at least as many as one commit may add."""


def digests(changes: Iterable[str]) -> list[bytes]:
    """Of the keys a transaction changed."""
    return [
        hashlib.blake2b(change.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest() for change in changes
    ]


class CommittedKeys:
    """Times are pointers: the newest one when a transaction committed."""

    def __init__(self) -> None:
        self._committed: dict[bytes, int] = {}
        """Digest of a key → when it was last committed, oldest first."""
        self._forgotten = 0
        """The newest of what is no longer among them."""

    def __len__(self) -> int:
        return len(self._committed)

    def conflict(self, pointer: int, changed: list[bytes]) -> bool:
        """Whether one of these keys was committed, or may have been, since the transaction ``pointer`` began."""
        if changed and self._forgotten >= pointer:
            return True
        return any(self._committed.get(digest, 0) >= pointer for digest in changed)

    def add(self, changed: Iterable[bytes], at: int) -> None:
        for digest in changed:
            self._committed.pop(digest, None)  # so that the order is that of the commits
            self._committed[digest] = at

    def forget_upto(self, pointer: int) -> None:
        """What was committed by then is not known: a transaction begun before is in conflict with all it changed."""
        self._forgotten = max(self._forgotten, pointer)

    def forget(self, oldest_open: int) -> None:
        """Those committed before the oldest open transaction began; beyond the limit the oldest, which is noted."""
        gone: list[bytes] = []
        for digest, at in islice(self._committed.items(), FORGOTTEN_MAX):
            if at >= oldest_open and len(self._committed) - len(gone) <= COMMITTED_MAX:
                break
            gone.append(digest)
            if at >= oldest_open:
                self._forgotten = max(self._forgotten, at)
        for digest in gone:
            del self._committed[digest]
