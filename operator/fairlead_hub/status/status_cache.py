"""Write-behind cache of the hub's documents in the API: the newest wins, at most one write per document at a time.

    want / drop ─▶ dirty ─take─▶ writing ─wrote─▶ observed ◀─observe─ the watch
                     ▲              └─failed──┐
                     └────────────────────────┘

The cache decides what has to be written; a ``StatusClient`` writes it.  ``MemoryStatusClient`` replaces the API server
in tests and the simulation: it refuses what the API server would refuse.  Nothing here is on the send path.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from fairlead_hub import leadership
from fairlead_hub.cluster import api_json
from fairlead_hub.status.refused_writes import RefusedWrites
from fairlead_wire.objects.resource import is_comparable, is_newer

WRITES_MAX = 2000
"""Documents taken at once: about two seconds of one API server.  Documents queued meanwhile wait no longer than
that."""
Status = dict[str, Any]
Name = tuple[str, str, str]
"""(collection, namespace, name); namespace "" for cluster-scoped collections."""
NoticeType = Literal["Normal", "Warning"]


class Observed:
    """A document as it is in the API: its version, its status, and the part of its head that its reader keeps.

    Tens of thousands stay in memory, most with equal content: bodies are packed (``compact``) to a fifth of the size of
    dicts, and unpacked when they are read.
    """

    __slots__ = ("_head", "_status", "fence", "generation", "uid", "version")

    def __init__(self, *, version: str, generation: int, status: Status, head: dict[str, Any], uid: str = "") -> None:
        self.version = version
        self.uid = uid
        """UID of the document: a delete applies only to this one."""
        self.generation = generation
        fence = status.get("fence", 0)
        self.fence = fence if isinstance(fence, int) else 0
        """Fencing number of the hub that wrote it; 0 if it has none."""
        self._status = api_json.pack(status)
        self._head = api_json.pack(head)

    def outranks(self, fence: int) -> bool:
        """Whether a hub newer than the one with this number wrote it.  An impossible number is overwritten."""
        return self.fence > fence and leadership.is_believable(self.fence, fence)

    def is_absurd(self, fence: int) -> bool:
        """Whether its fencing number is impossible from the view of the hub with this number."""
        return not leadership.is_believable(self.fence, fence)

    @property
    def status(self) -> Status:
        found: Status = api_json.unpack(self._status)
        return found

    @property
    def outline(self) -> Status:
        """The status without lists and nested parts."""
        return api_json.outline(self._status)

    @property
    def head(self) -> dict[str, Any]:
        found: dict[str, Any] = api_json.unpack(self._head)
        return found


class StatusDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it should be.  Bodies are built when it is written: most documents are replaced before."""

    name: Name
    node: str

    def head(self) -> dict[str, Any] | None:
        """The body to create; None if only the status of an existing object is written."""
        return None

    def status(self, observed: Observed | None) -> Status:
        """The status to write, given the current document (transition times depend on it)."""
        raise AssertionError("a document without a status")

    def is_written_in(self, observed: Observed) -> bool:
        """Whether the current document already says it: then it was written, and only the answer was lost."""
        return False


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A document that should not exist."""

    name: Name
    node: str


Wanted = StatusDocument | Removal


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A reportable transition of one of our documents, for a Kubernetes Event; the hub passes it on.

    ``reason`` is for programs, ``message`` for people.
    """

    kind: str
    namespace: str = ""
    name: str
    type: NoticeType
    reason: str
    message: str


def node_notice(node: str, type: NoticeType, reason: str, message: str) -> Notice:
    """A notice about a node: the Event names its EdgeNode."""
    return Notice(kind="EdgeNode", name=node, type=type, reason=reason, message=message)


class StatusWrite(msgspec.Struct, frozen=True):
    """One write: what is wanted, and the current document it was decided on."""

    wanted: Wanted
    observed: Observed | None

    def is_over_absurd(self, fence: int) -> bool:
        """Whether it overwrites a document with a fencing number that is impossible for the hub with this number."""
        return self.observed is not None and self.observed.is_absurd(fence)


class WriteOutcome(enum.Enum):
    """The outcome of one write."""

    WRITTEN = "written"
    GONE = "gone"
    """It does not exist (any more), which is what a removal wants."""
    CONFLICT = "conflict"
    """It was written since: read it and decide again."""
    FORBIDDEN = "forbidden"
    """Refused for now: its namespace is being deleted, or we lack permission.  Counted and retried."""
    RETRY = "retry"
    """The API server is away or busy."""
    FENCED = "fenced"
    """A newer hub has written: this hub must stop."""


class StatusClient(Protocol):
    """Writes documents.  Calls for one name never overlap."""

    async def put(
        self, document: StatusDocument, observed: Observed | None, fence: int
    ) -> tuple[WriteOutcome, Observed | None]: ...

    async def remove(self, removal: Removal, observed: Observed | None, fence: int) -> WriteOutcome: ...

    def refusal(self, name: Name) -> str:
        """Why the last write of this document was ``FORBIDDEN``; called once, directly afterwards."""


class StatusCache:
    """See the module docstring.

    The watch and our own writes report the same documents, each with its own delay.  Versions decide which report is
    newer: one older than the known version is an echo, however late.  Only a restored API server starts over with lower
    versions; the watch that detects it calls ``restored``.
    """

    def __init__(self, fence: int = 0) -> None:
        self.observed: dict[Name, Observed] = {}
        self._of_node: dict[str, set[Name]] = defaultdict(set)
        self._dirty: OrderedDict[Name, Wanted] = OrderedDict()
        self._writing: dict[Name, Wanted] = {}
        self._meanwhile: dict[Name, tuple[str, Callable[[], Observed] | None]] = {}
        """Watch reports about documents that were being written: (version, how to read it; None: deleted)."""
        self._unordered: set[Name] = set()
        """Known from before a restore: any version is news."""
        self.refusals = RefusedWrites()
        self.behind_since: dict[Name, float] = {}
        """Since when an ObjectSync differs from what is written."""
        self.fence = fence
        """This hub's number, included in everything it writes."""
        self.synced: set[str] = set()
        """Collections whose first list is complete."""

    def raise_fence(self, fence: int) -> None:
        """This hub has this number from now on."""
        self.fence = fence

    def __len__(self) -> int:
        return len(self._dirty) + len(self._writing)

    def want(self, wanted: Wanted, behind_since: float | None = None) -> None:
        """Replace what was wanted under this name; it keeps its place in the queue.

        ``behind_since``: since when the written document is out of date, if that is measured.
        """
        name = wanted.name
        self._dirty[name] = wanted
        if name not in self.observed:
            self._of_node[wanted.node].add(name)
        if behind_since is not None:
            self.behind_since.setdefault(name, behind_since)

    def cancel(self, name: Name) -> None:
        """The current document is correct after all: drop a write that has not started."""
        wanted = self._dirty.pop(name, None)
        if name not in self._writing:
            self.behind_since.pop(name, None)
            self.refusals.forget(name)
            if wanted is not None and name not in self.observed:
                self._forget(name, wanted.node)

    def pending(self, name: Name) -> Wanted | None:
        return self._dirty.get(name) or self._writing.get(name)

    def of_node(self, node: str) -> list[Name]:
        """Documents in the API about this node, and those still to be written."""
        return list(self._of_node.get(node, ()))

    def nodes(self) -> list[str]:
        """Nodes with any document."""
        return list(self._of_node)

    def take(self, now: float) -> list[StatusWrite]:
        """What to write now, at most ``WRITES_MAX``; each name once until it is ``answered``.

        Nodes take turns, and for each node the oldest goes first: a node with thousands of writes delays no other.
        """
        self.refusals.turn()
        may_try = self.refusals.may_try
        waiting: dict[str, deque[Name]] = defaultdict(deque)
        for name, wanted in self._dirty.items():
            if name not in self._writing and may_try(name, now):
                waiting[wanted.node].append(name)
        found: list[StatusWrite] = []
        while waiting and len(found) < WRITES_MAX:
            for node in list(waiting)[: WRITES_MAX - len(found)]:
                name = waiting[node].popleft()
                if not waiting[node]:
                    del waiting[node]
                wanted = self._writing[name] = self._dirty.pop(name)
                found.append(StatusWrite(wanted, self.observed.get(name)))
        return found

    def answered(
        self, wanted: Wanted, answer: WriteOutcome, there: Observed | None, now: float, *, reason: str = ""
    ) -> bool:
        """The outcome of a write; ``there`` is the document as it is now, if known.

        Returns True if it was refused, for ``reason``, and that should be logged.
        """
        match answer:
            case WriteOutcome.WRITTEN:
                self.wrote(wanted, there)
            case WriteOutcome.GONE:
                self.wrote(wanted, None)
                if isinstance(wanted, StatusDocument) and wanted.head() is not None:
                    self.want(wanted)  # deleted by hand between our watch and our write: write it again
            case WriteOutcome.CONFLICT:
                self.wrote(wanted, there)
                if self.pending(wanted.name) is None:
                    self.want(wanted)
            case WriteOutcome.FORBIDDEN:
                return self.failed(wanted, now, refused=reason or answer.value)
            case WriteOutcome.RETRY | WriteOutcome.FENCED:
                self.failed(wanted, now)
        return False

    def wrote(self, wanted: Wanted, observed: Observed | None) -> None:
        """The document is now ``observed`` (None: it is gone)."""
        name = wanted.name
        del self._writing[name]
        self.refusals.written(name)
        if observed is None:
            self._unobserve(name, wanted.node)
        else:
            self._observe(name, wanted.node, observed)
        heard = self._meanwhile.pop(name, None)
        if heard is not None and not isinstance(wanted, Removal):
            self._changed_behind_us(wanted, observed, *heard)
        if name not in self._dirty:
            self.behind_since.pop(name, None)

    def _changed_behind_us(
        self, wanted: StatusDocument, written: Observed | None, version: str, read: Callable[[], Observed] | None
    ) -> None:
        """It was changed or deleted after our write, and the watch reported that before our answer arrived."""
        if written is None or not is_newer(version, written.version):
            return
        if read is None:
            self._unobserve(wanted.name, wanted.node)
        else:
            there = read()
            self._observe(wanted.name, wanted.node, there)
            if there.status == written.status:
                return
        if wanted.name not in self._dirty:
            self.want(wanted)

    def failed(self, wanted: Wanted, now: float, *, refused: str = "") -> bool:
        """It was not written; it is still wanted unless replaced.

        ``refused``: why it is refused for now.  Returns True if that should be logged.
        """
        name = wanted.name
        del self._writing[name]
        heard = self._meanwhile.pop(name, None)
        self._dirty.setdefault(name, wanted)
        if heard is not None:
            self._apply_observed(wanted, *heard)
        return bool(refused) and self.refusals.refused(name, refused, now)

    def _apply_observed(self, wanted: Wanted, version: str, read: Callable[[], Observed] | None) -> None:
        """Apply what the watch reported meanwhile; our write may have arrived, with only its answer lost."""
        name = wanted.name
        if read is None:
            self._unobserve(name, wanted.node)
            done = isinstance(wanted, Removal)
        else:
            there = read()
            if not self._is_news(name, version):
                return
            self._observe(name, wanted.node, there)
            done = isinstance(wanted, StatusDocument) and wanted.is_written_in(there)
        if done and self._dirty[name] is wanted:
            self.cancel(name)

    # ---- what the watch says -----------------------------------------------------------------------

    def observe(self, name: Name, node: str, observed: Observed) -> bool:
        """Returns False if it is not news: an echo of our write, or older than the known version."""
        if self.is_echo(name, observed.version, lambda: observed):
            return False
        self._observe(name, node, observed)
        return True

    def is_echo(self, name: Name, version: str, read: Callable[[], Observed]) -> bool:
        """Whether this version is not news, so that the rest need not be read.

        While a write is in progress this is undecided: ``read`` is kept until its outcome is known.
        """
        if name in self._writing:
            self._meanwhile[name] = (version, read)
            return True
        return not self._is_news(name, version)

    def vanished(self, name: Name, node: str, version: str = "") -> bool:
        """It was deleted at this version.  Returns True if others deleted it: it may have to be written again."""
        if name in self._writing:
            self._meanwhile[name] = (version, None)
            return False
        if version and not self._is_news(name, version):
            return False
        known = name in self.observed
        self._unobserve(name, node)
        return known

    def missing(self, collection: str, identities: set[str], version: str) -> list[Name]:
        """Documents that a list of this version does not contain (as ``namespace/name``): they were gone by then."""
        return [
            name
            for name, observed in self.observed.items()
            if name[0] == collection
            and f"{name[1]}/{name[2]}" not in identities
            and (name in self._unordered or not is_newer(observed.version, version))
        ]

    def listed(self, collection: str) -> None:
        """Its first list is complete."""
        self.synced.add(collection)

    def restored(self, collection: str) -> None:
        """The API server was restored from an older copy: versions start over."""
        self._unordered.update(name for name in self.observed if name[0] == collection)
        self.synced.discard(collection)

    def _is_news(self, name: Name, version: str) -> bool:
        known = self.observed.get(name)
        if known is None:
            return True
        if name in self._unordered or not (is_comparable(version) and is_comparable(known.version)):
            if version == known.version:
                self._unordered.discard(name)  # it still exists: from now on its versions rise again
            return version != known.version
        return is_newer(version, known.version)

    def _observe(self, name: Name, node: str, observed: Observed) -> None:
        self.observed[name] = observed
        self._unordered.discard(name)
        self._of_node[node].add(name)

    def _unobserve(self, name: Name, node: str) -> None:
        self.observed.pop(name, None)
        self._unordered.discard(name)
        if self.pending(name) is None:
            self._forget(name, node)

    def _forget(self, name: Name, node: str) -> None:
        """It does not exist and nothing is to be written."""
        names = self._of_node.get(node)
        if names is not None:
            names.discard(name)
            if not names:
                del self._of_node[node]
