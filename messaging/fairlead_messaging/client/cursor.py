"""The state of an iteration over a topic: which page to request next, and whether there is one.

cursor.ask() ─→ ClientRequest ─(sent)→ Page ─take→ its messages; ``cursor.more`` says whether to ask again
"""

from __future__ import annotations

from typing import TypedDict

from fairlead_messaging.api.responses import Message, Page
from fairlead_messaging.client import requests
from fairlead_messaging.client.request import ClientRequest
from fairlead_wire.errors import RemoteError

FOLLOW_WAIT_MS = 10_000


class ReadOptions(TypedDict, total=False):
    """Where and how to read: ``start_from`` an id (hex), a time in milliseconds, or None for the oldest message.

    ``follow``: wait for new messages and never end.  ``read_committed`` (True when absent): only committed messages.
    """

    start_from: str | int | None
    inclusive: bool
    follow: bool
    read_committed: bool


class Cursor:
    """Yields every message from a start on, once and in order; with ``follow`` it waits for new ones and never ends."""

    def __init__(
        self,
        namespace: str,
        name: str,
        *,
        start_from: str | int | None = None,
        inclusive: bool = True,
        follow: bool = False,
        read_committed: bool = True,
        limit: int | None = None,
    ) -> None:
        self._topic = (namespace, name)
        self._start, self._inclusive = start_from, inclusive
        self._follow = follow
        self._read_committed = read_committed
        self._limit = limit
        self.more = True

    def ask(self) -> ClientRequest[Page]:
        """The request for the next page: the same one again until ``take`` has had its answer."""
        return requests.poll(
            *self._topic,
            start_from=self._start,
            inclusive=self._inclusive,
            limit=self._limit,
            read_committed=self._read_committed,
            wait_ms=FOLLOW_WAIT_MS if self._follow else 0,
        )

    @property
    def position(self) -> str | int | None:
        """Where the next page begins: after this id, or at ``start_from`` while no page has been taken."""
        return self._start

    def take(self, page: Page) -> tuple[Message, ...]:
        """The page's messages; the next ``ask`` continues after them.

        Raises ``RemoteError`` for a page that does not move forward: it would be requested forever.
        """
        start = self._start
        if page.messages and isinstance(start, str) and not self._inclusive and page.next_position <= start:
            raise RemoteError(f"the page behind {start} ends at {page.next_position}, which is not behind it")
        # An empty page with a new position skipped invisible messages; at the end the position no longer changes.
        self.more = self._follow or bool(page.messages) or self._start != page.next_position
        self._start, self._inclusive = page.next_position, False
        return page.messages
