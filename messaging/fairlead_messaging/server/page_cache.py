"""A cache of encoded pages that many readers request, within a budget of bytes.

It keeps two kinds: pages of plain messages (no transaction, no own ttl), which are the same for every reader, and
decided pages, whose transactions have all ended, which are the same for readers of one isolation.  No commit, rollback
or timeout can change either.  What can change them is checked at every use: expiry by the topic's or a message's ttl,
and new messages after a page that reached the end.  So the answer never differs from the store's.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from fairlead_messaging.api.message_id import MessageId
from fairlead_messaging.server.log.reader import LASTING_MS
from fairlead_messaging.server.log.topic import TopicGeneration

ANY = ""
"""The isolation of pages that are the same for every reader."""
ENTRY_OVERHEAD_BYTES = 500
"""The cost of an entry besides its body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageKey:
    """Everything that determines a page, except the reader's isolation, expiry and later messages.

    ``after`` is the actual start of the page: a waiting poll moves past rows that its reader may not see, but others
    may.
    """

    namespace: str
    name: str
    generation: int
    after: MessageId
    limit: int
    content_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPage:
    """An encoded page.  ``end`` is the end of the log when it was read, None if a limit ended the page.

    ``oldest_live`` is the bound of expiry when it was read: if that moves back (a longer ttl, a clock that is set
    back), the page lacks messages.
    """

    body: bytes
    next_position: MessageId
    count: int
    first: bytes
    oldest_live: MessageId
    end: bytes | None
    complete: bool = True
    lasts_until_ms: int = LASTING_MS
    """When its first message with its own ttl expires."""


def page_key(topic: TopicGeneration, after: MessageId, limit: int, content_type: str) -> PageKey:
    return PageKey(
        namespace=topic.namespace,
        name=topic.name,
        generation=topic.generation,
        after=after,
        limit=limit,
        content_type=content_type,
    )


class PageCache:
    """Evicts the least recently used pages first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._pages: OrderedDict[tuple[PageKey, str], CachedPage] = OrderedDict()
        """By key and by the isolation of readers: ``ANY`` for pages that are the same for all."""
        self.size = 0
        self.hits = 0
        self.misses = 0

    def get(
        self, key: PageKey, isolation: str, *, oldest_live: MessageId, log_end: bytes | None, now_ms: int
    ) -> CachedPage | None:
        """The page for a reader of this isolation, if the store would still answer it; ``ANY``: only pages for all
        readers.

        ``oldest_live`` is the bound of expiry, ``log_end`` where the topic ends now.
        """
        for place in dict.fromkeys(((key, ANY), (key, isolation))):
            found = self._pages.get(place)
            if (
                found is not None
                and found.oldest_live <= oldest_live < found.first
                and (found.end is None or found.end == log_end)
                and now_ms <= found.lasts_until_ms
            ):
                self._pages.move_to_end(place)
                self.hits += 1
                return found
        self.misses += 1
        return None

    def put(self, key: PageKey, isolation: str, page: CachedPage) -> None:
        """Keep a page, unless it is too large for the budget."""
        place = (key, isolation)
        before = self._pages.pop(place, None)
        self.size += _size(page) - (_size(before) if before is not None else 0)
        self._pages[place] = page
        while self.size > self._bytes_max:
            _, dropped = self._pages.popitem(last=False)
            self.size -= _size(dropped)

    def __len__(self) -> int:
        return len(self._pages)


def _size(page: CachedPage) -> int:
    return len(page.body) + ENTRY_OVERHEAD_BYTES
