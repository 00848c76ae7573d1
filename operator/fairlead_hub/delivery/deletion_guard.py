"""The deletion guard: a node that would lose too many objects at once loses none until a person approves it.

    removals due and sent recently ≤ removals_max ─▶ they are sent
                                   >              ─▶ Tripped(id): removals stop, everything else continues
    approved by that id ─▶ the due removals are sent ─▶ off    all of it wanted again ─▶ off

A rule deleted by mistake, a selector with a typo, a wiped namespace: all look like deliberate changes, and a store
behind a slow link takes days to refill.  The id is new each time, so an approval applies once, to what it was given
for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Set

import msgspec

from fairlead_hub.settings import DeletionGuardSettings as Limits
from fairlead_wire.objects.api_group import APPROVE_DELETIONS

ID_CHARS = 8
MISTAKEN_CHARS_MAX = 32
"""Of an id that a person wrote and that is none."""


CAUSE = "a SyncRule, a label or a namespace was probably changed or deleted; restore it and the guard resets"
"""Said before the way that deletes."""
_MISTAKEN = " (the annotation has "


def remedy(node: str) -> str:
    """What to do about a guard that has tripped, for people; the way back first."""
    return f"{CAUSE}. If the deletions are intended: fairlead approve {node}"


def mistaken_in(why: str) -> str:
    """The part of ``DeletionGuard.why`` about an approval that is none; empty if it has none."""
    return why.partition(_MISTAKEN)[2]


class Tripped(msgspec.Struct, frozen=True, kw_only=True):
    """Removals of a node are stopped.  Kept in its EdgeNode, so that a hub that restarts continues to stop them."""

    id: str
    count: int
    """Number of removals due when it tripped."""
    since: str
    """RFC 3339."""


class DeletionGuard:
    """The guard of one node, across its sessions.

    Times are seconds of one monotonic clock; ``text`` converts them to RFC 3339.  When something reportable changes,
    the node's name is added to ``news``.
    """

    __slots__ = ("_allowed", "_limits", "_mistaken", "_news", "_node", "_sent", "_text", "approved", "due", "tripped")

    def __init__(self, node: str, limits: Limits, *, news: set[str], text: Callable[[float], str]) -> None:
        self.tripped: Tripped | None = None
        self.approved = False
        """The due removals were approved and are not all done."""
        self.due: set[str] = set()
        """Keys the node holds and should not; without a session, those at its end."""
        self._node = node
        self._limits = limits
        self._news = news
        self._text = text
        self._allowed: set[str] = set()
        self._mistaken = ""
        """The id that a person approved, where it is not the one under which it has tripped."""
        self._sent: dict[str, float] = {}
        """Keys whose removal was sent within the window → when (monotonic seconds), oldest first."""

    @property
    def stops(self) -> bool:
        return self.tripped is not None and not self.approved

    @property
    def count(self) -> int:
        """Number of waiting removals."""
        return len(self.due) or (self.tripped.count if self.tripped is not None else 0)

    # ---- what is due -----------------------------------------------------------------------------

    def set_due(self, keys: Set[str]) -> None:
        """Set all due removals, whenever the node's store and the cluster are compared."""
        self.due = set(keys)
        if self.approved and not self._allowed:
            self._allowed = set(keys)  # approved under an earlier hub, or before it was known what is due
        self._settle()

    def add(self, key: str) -> None:
        """Another held key is no longer wanted."""
        if key not in self.due:
            self.due.add(key)
            if self.tripped is not None:
                self._news.add(self._node)

    def drop(self, key: str) -> None:
        """The key was removed, or is wanted again."""
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
        """Why the key may not be removed now; empty if it may, and then it is counted."""
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
        """The reason and the remedy, for people."""
        id = self.tripped.id if self.tripped is not None else ""
        mistaken = f"{_MISTAKEN}{self._mistaken!r}, which approves nothing)" if self._mistaken else ""
        return (
            f"deletion guard: {self.count} deletions are due, more than {self._limits.removals_max} within"
            f" {self._limits.window_seconds:g} s: {remedy(self._node)}, or kubectl annotate enode {self._node}"
            f" --overwrite {APPROVE_DELETIONS}={id}{mistaken}"
        )

    def approve(self, id: str) -> bool:
        """Approve the due removals.  Returns True if this is the id under which the guard tripped.

        A different id is named in ``why``.  An empty id approves nothing.
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
        """An id that is new each time: it depends on the time and on what is due."""
        said = "\n".join((self._node, since, *sorted(self.due)))
        return hashlib.sha256(said.encode()).hexdigest()[:ID_CHARS]
