"""Documents the hub keeps in the API, written behind: newest wins, at most one write each at a time.

    want / drop ─▶ dirty ─take─▶ writing ─wrote─▶ observed ◀─observe─ the watch
                     ▲              └─failed──┐
                     └────────────────────────┘

The book decides what has to be written; a ``Ledger`` writes it.  ``MemoryLedger`` is the twin of the API server for
tests and the simulation: it refuses what the API server would refuse.  Nothing here is on the send path.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from fairlead_hub import compact

ECHOES_MAX = 4
ECHO_SECONDS = 5.0
"""How late the watch may bring what we wrote ourselves."""

Status = dict[str, Any]
Name = tuple[str, str, str]
"""(collection, namespace, name); namespace "" for cluster-scoped collections."""


class Observed:
    """A document as it stands in the API: its version, its status, and of its head what the reader keeps.

    Tens of thousands of them stay in memory, and most say the same: bodies are packed (``compact``), a fifth of what
    dicts would take, and unpacked when somebody asks.
    """

    __slots__ = ("_head", "_status", "echoes", "echoes_until", "fence", "generation", "version")

    def __init__(self, *, version: str, generation: int, status: Status, head: dict[str, Any]) -> None:
        self.version = version
        self.generation = generation
        self.echoes: tuple[str, ...] = ()
        """Versions we wrote before this one, whose echoes the watch may still bring …"""
        self.echoes_until = 0.0
        """… until then; afterwards an older version is news (a restored API server)."""
        fence = status.get("fence", 0)
        self.fence = fence if isinstance(fence, int) else 0
        """Of the hub that wrote it; 0 when nobody said."""
        self._status = compact.pack(status)
        self._head = compact.pack(head)

    @property
    def status(self) -> Status:
        found: Status = compact.unpack(self._status)
        return found

    @property
    def head(self) -> dict[str, Any]:
        found: dict[str, Any] = compact.unpack(self._head)
        return found


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it should be.  Bodies are made when it is written: most wishes are replaced before."""

    name: Name
    node: str

    def head(self) -> dict[str, Any] | None:
        """What is created; None: only ever a status on something others create."""
        return None

    def status(self, observed: Observed | None) -> Status:
        """The status to write, given what is there (transition times depend on it)."""
        raise AssertionError("a document without a status")


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A document that should not be there."""

    name: Name
    node: str


Wanted = Document | Removal


class Answer(enum.Enum):
    """What became of one write."""

    WRITTEN = "written"
    GONE = "gone"
    """It does not exist (any more): for a removal that is what was wanted."""
    CONFLICT = "conflict"
    """Somebody else wrote since; look again and decide anew."""
    FORBIDDEN = "forbidden"
    """Never like this: its namespace is going away, or we are not allowed to.  Dropped and counted."""
    RETRY = "retry"
    """The API server is away or busy."""
    FENCED = "fenced"
    """A newer hub has written: this one must stop."""


class Ledger(Protocol):
    """Where documents are written.  Calls for one name never overlap."""

    async def put(
        self, document: Document, observed: Observed | None, fence: int
    ) -> tuple[Answer, Observed | None]: ...

    async def remove(self, removal: Removal, observed: Observed | None, fence: int) -> Answer: ...


class Book:
    """See the module."""

    def __init__(self) -> None:
        self.observed: dict[Name, Observed] = {}
        self._of_node: dict[str, set[Name]] = defaultdict(set)
        self._dirty: OrderedDict[Name, Wanted] = OrderedDict()
        self._writing: dict[Name, Wanted] = {}
        self.behind_since: dict[Name, float] = {}
        """When a record began to differ from what is written; kept by whoever knows the time, ended here."""
        self.now = 0.0
        """Kept by whoever knows the time; only how old an echo may be depends on it."""
        self.synced: set[str] = set()
        """Collections whose first list is in."""

    def __len__(self) -> int:
        return len(self._dirty) + len(self._writing)

    def want(self, wanted: Wanted) -> None:
        """Replaces what was wanted before under this name; it keeps its place in the line."""
        self._dirty[wanted.name] = wanted

    def settled(self, name: Name) -> None:
        """What is there is right after all: forget a write that has not started."""
        self._dirty.pop(name, None)
        if name not in self._writing:
            self.behind_since.pop(name, None)

    def pending(self, name: Name) -> Wanted | None:
        return self._dirty.get(name) or self._writing.get(name)

    def of_node(self, node: str) -> list[Name]:
        return list(self._of_node.get(node, ()))

    def nodes(self) -> list[str]:
        return list(self._of_node)

    def take(self, limit: int) -> Iterator[Wanted]:
        """What to write now, oldest wish first; each name once until ``wrote`` or ``failed``."""
        ready = [name for name in self._dirty if name not in self._writing][:limit]
        for name in ready:
            wanted = self._dirty.pop(name)
            self._writing[name] = wanted
            yield wanted

    def wrote(self, wanted: Wanted, observed: Observed | None) -> None:
        """It is there now as ``observed`` (None: it is gone)."""
        del self._writing[wanted.name]
        if wanted.name not in self._dirty:
            self.behind_since.pop(wanted.name, None)
        if observed is None:
            self._unobserve(wanted.name, wanted.node)
        else:
            before = self.observed.get(wanted.name)
            if before is not None and before is not observed:
                observed.echoes = (*observed.echoes, before.version, *before.echoes)[:ECHOES_MAX]
            observed.echoes_until = self.now + ECHO_SECONDS
            self._observe(wanted.name, wanted.node, observed)

    def failed(self, wanted: Wanted, *, again: bool) -> None:
        """Not written.  ``again``: wanted still, unless something newer is."""
        del self._writing[wanted.name]
        if again and wanted.name not in self._dirty:
            self._dirty[wanted.name] = wanted
        if wanted.name not in self._dirty:
            self.behind_since.pop(wanted.name, None)

    # ---- what the watch says -----------------------------------------------------------------------

    def observe(self, name: Name, node: str, observed: Observed) -> bool:
        """False for an echo of our own writes."""
        if self.is_echo(name, observed.version):
            return False
        known = self.observed.get(name)
        self._observe(name, node, observed)
        return known is None or known.version != observed.version

    def is_echo(self, name: Name, version: str) -> bool:
        """Is this version no news?  While a write runs, whatever comes says nothing certain."""
        if name in self._writing:
            return True
        known = self.observed.get(name)
        if known is None or self.now >= known.echoes_until:
            return False
        return version == known.version or version in known.echoes

    def vanished(self, name: Name, node: str) -> bool:
        """It was deleted.  True when that was not our doing: it may have to be written again."""
        writing = self._writing.get(name)
        if isinstance(writing, Removal):
            return False
        known = name in self.observed
        self._unobserve(name, node)
        return known

    def _observe(self, name: Name, node: str, observed: Observed) -> None:
        self.observed[name] = observed
        self._of_node[node].add(name)

    def _unobserve(self, name: Name, node: str) -> None:
        self.observed.pop(name, None)
        names = self._of_node.get(node)
        if names is not None:
            names.discard(name)
            if not names:
                del self._of_node[node]


class MemoryLedger:
    """The API server's twin: versions rise, a stale version conflicts, a newer fence refuses."""

    def __init__(self) -> None:
        self.documents: dict[Name, Observed] = {}
        self.gone_namespaces: set[str] = set()
        self.writes = 0
        self._version = 0

    async def put(self, document: Document, observed: Observed | None, fence: int) -> tuple[Answer, Observed | None]:
        there = self.documents.get(document.name)
        if document.name[1] in self.gone_namespaces and there is None:
            return Answer.FORBIDDEN, None
        if there is None and document.head() is None:
            return Answer.GONE, None
        if there is not None:
            if there.fence > fence:
                return Answer.FENCED, there
            if observed is None or observed.version != there.version:
                return Answer.CONFLICT, there
        self._version += 1
        self.writes += 1 if there is not None else 2
        head = there.head if there is not None else document.head() or {}
        written = Observed(version=str(self._version), generation=1, status=document.status(there), head=head)
        self.documents[document.name] = written
        return Answer.WRITTEN, written

    async def remove(self, removal: Removal, observed: Observed | None, fence: int) -> Answer:
        there = self.documents.get(removal.name)
        if there is None:
            return Answer.GONE
        if there.fence > fence:
            return Answer.FENCED
        self.writes += 1
        del self.documents[removal.name]
        return Answer.WRITTEN
