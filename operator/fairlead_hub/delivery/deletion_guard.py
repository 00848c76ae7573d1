"""The deletion guard: a node that would lose too many objects at once loses none until a person says that it is meant.

    removals due and sent lately ≤ removals_max ─▶ they go
                                 >              ─▶ Tripped(id): removals stop, everything else goes on
    approved by that id ─▶ what was due may go ─▶ off          wanted again, all of it ─▶ off

A rule deleted by mistake, a selector with a typo, a namespace wiped: all look like orders, and a store at the end of a
thin link takes days to fill again.  The id is new each time, so an approval lets through what it was given for, once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Set

import msgspec

from fairlead_hub.settings import DeletionGuardSettings as Limits

ID_CHARS = 8
MISTAKEN_CHARS_MAX = 32
"""Of an id that a person wrote and that is none."""


class Tripped(msgspec.Struct, frozen=True, kw_only=True):
    """Removals of a node are stopped; kept in its EdgeNode, so that a hub that starts anew stops them too."""

    id: str
    count: int
    """How many were due when it tripped."""
    since: str
    """RFC 3339."""


class DeletionGuard:
    """One node's, over all its sessions; times are seconds of one monotonic clock, ``text`` makes them RFC 3339.

    ``news`` gets the node's name when there is something to tell of it.
    """

    __slots__ = ("_allowed", "_limits", "_mistaken", "_news", "_node", "_sent", "_text", "approved", "due", "tripped")

    def __init__(self, node: str, limits: Limits, *, news: set[str], text: Callable[[float], str]) -> None:
        self.tripped: Tripped | None = None
        self.approved = False
        """What was due may go, and has not all gone."""
        self.due: set[str] = set()
        """Keys the node holds and should not; without a live session, as they were at its end."""
        self._node = node
        self._limits = limits
        self._news = news
        self._text = text
        self._allowed: set[str] = set()
        self._mistaken = ""
        """The id that a person approved, where it is not the one under which it has tripped."""
        self._sent: dict[str, float] = {}
        """Keys whose removal was sent within the window → when (seconds, monotonic), oldest first."""

    @property
    def stops(self) -> bool:
        return self.tripped is not None and not self.approved

    @property
    def count(self) -> int:
        """How many removals wait."""
        return len(self.due) or (self.tripped.count if self.tripped is not None else 0)

    # ---- what is due -----------------------------------------------------------------------------

    def set_due(self, keys: Set[str]) -> None:
        """All that has to be removed: set whenever the node's store and the cluster are compared."""
        self.due = set(keys)
        if self.approved and not self._allowed:
            self._allowed = set(keys)  # approved in an earlier life, or while it was not known what is due
        self._settle()

    def add(self, key: str) -> None:
        """One more is held and no longer wanted."""
        if key not in self.due:
            self.due.add(key)
            if self.tripped is not None:
                self._news.add(self._node)

    def drop(self, key: str) -> None:
        """It is removed, or wanted again."""
        if key in self.due:
            self.due.remove(key)
            self._settle()

    def _settle(self) -> None:
        if self.tripped is None:
            return
        self._allowed &= self.due
        if not self.due or (self.approved and not self._allowed):
            self.tripped, self.approved = None, False
        self._news.add(self._node)

    # ---- what may go -----------------------------------------------------------------------------

    def blocked(self, key: str, now: float) -> str:
        """Why it may not be removed now; empty: it may, and is counted."""
        if key in self._allowed:
            return ""
        if not self.stops and not self._is_too_many(key, now):
            self._sent.pop(key, None)
            self._sent[key] = now
            return ""
        if not self.stops:
            since = self._text(now)
            self.tripped = Tripped(id=self._id(since), count=len(self.due), since=since)
            self.approved, self._mistaken = False, ""
            self._news.add(self._node)
        return self.why

    @property
    def why(self) -> str:
        """In words, with the remedy."""
        id = self.tripped.id if self.tripped is not None else ""
        mistaken = f" (the annotation has {self._mistaken!r}, which approves nothing)" if self._mistaken else ""
        return (
            f"deletion guard: {self.count} deletions are due, more than {self._limits.removals_max} at once; if they "
            f"are meant: kubectl annotate enode {self._node} --overwrite fairlead.dev/approve-deletions={id}"
            f"{mistaken}"
        )

    def approve(self, id: str) -> bool:
        """A person means it.  True: that is the id under which it has tripped, and what is due may go.

        Another id is named in ``why``; empty: no id is approved.
        """
        is_wrong = self.tripped is not None and not self.approved and id not in ("", self.tripped.id)
        mistaken = id[:MISTAKEN_CHARS_MAX] if is_wrong else ""
        if mistaken != self._mistaken:
            self._mistaken = mistaken
            self._news.add(self._node)
        if self.tripped is None or self.tripped.id != id or self.approved:
            return False
        self.approved = True
        self._allowed = set(self.due)
        self._news.add(self._node)
        return True

    def _is_too_many(self, key: str, now: float) -> bool:
        for sent, at in list(self._sent.items()):
            if now - at <= self._limits.window_seconds:
                break
            del self._sent[sent]
        lately = (self._sent.keys() | self.due | {key}) - self._allowed
        return len(lately) > self._limits.removals_max

    def _id(self, since: str) -> str:
        """New each time: the second is in it, and what is due."""
        said = "\n".join((self._node, since, *sorted(self.due)))
        return hashlib.sha256(said.encode()).hexdigest()[:ID_CHARS]
