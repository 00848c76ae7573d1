"""An in-memory API server for tests and the simulation, into which ``StatusClient`` writes."""

from __future__ import annotations

from fairlead_hub.status.status_cache import Name, Observed, Removal, StatusDocument, WriteOutcome


class MemoryStatusClient:
    """The API server in memory: versions rise, a stale version conflicts, a newer fence refuses."""

    def __init__(self) -> None:
        self.documents: dict[Name, Observed] = {}
        self.gone_namespaces: set[str] = set()
        self.writes = 0
        self._version = 0

    async def put(
        self, document: StatusDocument, observed: Observed | None, fence: int
    ) -> tuple[WriteOutcome, Observed | None]:
        there = self.documents.get(document.name)
        if document.name[1] in self.gone_namespaces and there is None:
            return WriteOutcome.FORBIDDEN, None
        if there is None and document.head() is None:
            return WriteOutcome.GONE, None
        if there is not None:
            if there.outranks(fence):
                return WriteOutcome.FENCED, there
            if observed is None or observed.version != there.version:
                return WriteOutcome.CONFLICT, there
        self._version += 1
        self.writes += 1 if there is not None else 2
        head = there.head if there is not None else document.head() or {}
        written = Observed(version=str(self._version), generation=1, status=document.status(there), head=head)
        self.documents[document.name] = written
        return WriteOutcome.WRITTEN, written

    def refusal(self, name: Name) -> str:
        return f"namespace {name[1]} is being deleted"

    async def remove(self, removal: Removal, observed: Observed | None, fence: int) -> WriteOutcome:
        there = self.documents.get(removal.name)
        if there is None:
            return WriteOutcome.GONE
        if there.outranks(fence):
            return WriteOutcome.FENCED
        if observed is not None and observed.version != there.version:
            return WriteOutcome.CONFLICT
        self.writes += 1
        del self.documents[removal.name]
        return WriteOutcome.WRITTEN
