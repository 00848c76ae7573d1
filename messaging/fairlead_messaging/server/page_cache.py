"""Pages many readers ask for, kept as they were answered, within a budget of bytes.

Only pages made of plain messages are kept (no transaction, no ttl of their own), so no commit, rollback or
timeout can change them.  What still can is checked at every use: expiry, and messages added behind a page
that reached the end.  The answer is therefore never different from the store's.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from fairlead_messaging.api.message_id import MessageId
from fairlead_messaging.server.log.topic import Topic

ENTRY_OVERHEAD_BYTES = 500
"""What an entry costs beside its body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageKey:
    """All that decides a page's content, but for expiry and what is added later.

    ``after`` is where the page was really read from: a poll that waits moves on over what its reader may not see,
    which other readers may.
    """

    namespace: str
    name: str
    generation: int
    after: MessageId
    limit: int
    content_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPage:
    """An encoded page.  ``end`` is the log's end it was read at, None when a limit ended the page.

    ``oldest_live`` is the bound it was read with: should it ever go back (a longer ttl, a clock set back), messages
    that were left out would be alive again.
    """

    body: bytes
    next_position: MessageId
    count: int
    first: bytes
    oldest_live: MessageId
    end: bytes | None
    complete: bool = True


def page_key(topic: Topic, after: MessageId, limit: int, content_type: str) -> PageKey:
    return PageKey(
        namespace=topic.namespace,
        name=topic.name,
        generation=topic.generation,
        after=after,
        limit=limit,
        content_type=content_type,
    )


class PageCache:
    """Least recently used pages go first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._pages: OrderedDict[PageKey, CachedPage] = OrderedDict()
        self.size = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: PageKey, oldest_live: MessageId, log_end: bytes | None) -> CachedPage | None:
        """The page, if it is what the store would answer now."""
        found = self._pages.get(key)
        if (
            found is None
            or found.first <= oldest_live
            or oldest_live < found.oldest_live
            or (found.end is not None and found.end != log_end)
        ):
            self.misses += 1
            return None
        self._pages.move_to_end(key)
        self.hits += 1
        return found

    def put(self, key: PageKey, page: CachedPage) -> None:
        """Too large a page for the budget is simply not kept."""
        before = self._pages.pop(key, None)
        self.size += _size(page) - (_size(before) if before is not None else 0)
        self._pages[key] = page
        while self.size > self._bytes_max:
            _, dropped = self._pages.popitem(last=False)
            self.size -= _size(dropped)

    def __len__(self) -> int:
        return len(self._pages)


def _size(page: CachedPage) -> int:
    return len(page.body) + ENTRY_OVERHEAD_BYTES
