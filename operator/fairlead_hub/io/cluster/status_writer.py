"""Writes status documents to the API server: create, then the status subresource; later writes are one status patch.

Writes carry the version they were decided on, so conflicts are detected; a status written by a newer hub (a higher
``fence``) is never overwritten.  Nothing is read before a write: the watch has reported what exists.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fairlead_hub.cluster import api_json
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable, UnreadableAnswer
from fairlead_hub.io.cluster.kube import MERGE_PATCH, REQUEST_SECONDS, Kube
from fairlead_hub.status.status_cache import (
    WRITES_MAX,
    Name,
    Observed,
    Removal,
    StatusClient,
    StatusDocument,
    StatusWrite,
    Wanted,
    WriteOutcome,
)
from fairlead_wire.errors import Malformed
from fairlead_wire.io import logs
from fairlead_wire.objects import api_group

AWAY_SECONDS = 1.0
REFUSED_REMEDY = "grant the hub's account the rights in docs/reference/hub.md; the write is retried until it succeeds"
_log = logs.get("hub.status_writer")


class KubeStatusClient:
    """See the module docstring; passes the same suite as ``MemoryStatusClient``."""

    def __init__(self, kube: Kube, *, seconds_left: Callable[[], float] = lambda: REQUEST_SECONDS) -> None:
        """``seconds_left``: how long a write may take, including retries; after that the Lease may be another's."""
        self._kube = kube
        self._refusals: dict[Name, str] = {}
        self._seconds_left = seconds_left

    async def put(
        self, document: StatusDocument, observed: Observed | None, fence: int
    ) -> tuple[WriteOutcome, Observed | None]:
        if observed is not None and observed.outranks(fence):
            return WriteOutcome.FENCED, observed
        try:
            if observed is None:
                head = document.head()
                if head is None:
                    return WriteOutcome.GONE, None
                answer = await self._write("POST", _collection(document.name), head)
                observed = _observed(answer, document.name)
            body = {"metadata": {"resourceVersion": observed.version}, "status": document.status(observed)}
            answer = await self._write("PATCH", f"{_path(document.name)}/status", body, content_type=MERGE_PATCH)
            return WriteOutcome.WRITTEN, _observed(answer, document.name)
        except ApiRefused as error:
            if error.status == 409:
                return await self._conflict(document, fence)
            if error.status == 404 and observed is not None:
                return WriteOutcome.GONE, None
            self._refusals[document.name] = str(error)
            return WriteOutcome.FORBIDDEN, None
        except ApiUnavailable as error:
            _log.warning("status_delayed", name="/".join(document.name), reason=str(error))
            return WriteOutcome.RETRY, None

    async def _conflict(self, document: StatusDocument, fence: int) -> tuple[WriteOutcome, Observed | None]:
        """Someone wrote the document since, or the watch has not reported it yet: read it and decide again.

        It may have been our own write: a request whose answer was lost is repeated and finds its own result.
        """
        try:
            there = _observed(await self._kube.get(_path(document.name)), document.name)
        except ApiRefused as error:
            if error.status == 404:
                return WriteOutcome.GONE, None
            self._refusals[document.name] = str(error)
            return WriteOutcome.FORBIDDEN, None
        except ApiUnavailable:
            return WriteOutcome.RETRY, None
        if there.outranks(fence):
            return WriteOutcome.FENCED, there
        is_written = document.is_written_in(there) and not there.is_absurd(fence)
        return (WriteOutcome.WRITTEN if is_written else WriteOutcome.CONFLICT), there

    def refusal(self, name: Name) -> str:
        return self._refusals.pop(name, "")

    async def remove(self, removal: Removal, observed: Observed | None, fence: int) -> WriteOutcome:
        """Remove the document as it was decided on: not a later one of the same name, nor one with newer contents."""
        try:
            if observed is None:
                observed = _observed(await self._kube.get(_path(removal.name)), removal.name)
            if observed.outranks(fence):
                return WriteOutcome.FENCED
            preconditions = {"resourceVersion": observed.version, **({"uid": observed.uid} if observed.uid else {})}
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
            await self._write("DELETE", _path(removal.name), options)
        except ApiRefused as error:
            if error.status == 404:
                return WriteOutcome.GONE
            if error.status == 409:
                return WriteOutcome.CONFLICT
            self._refusals[removal.name] = str(error)
            return WriteOutcome.FORBIDDEN
        except ApiUnavailable:
            return WriteOutcome.RETRY
        return WriteOutcome.WRITTEN

    async def _write(self, method: str, path: str, body: Any, *, content_type: str = "application/json") -> bytes:
        return await self._kube.request(method, path, body, content_type=content_type, seconds=self._seconds_left())


class Answers(Protocol):
    """Receives the outcome of a write: ``hub.documents``."""

    def answered(
        self, wanted: Wanted, answer: WriteOutcome, there: Observed | None, now: float, *, reason: str = ""
    ) -> bool: ...

    def unwritten(self, wanted: Wanted, now: float) -> None: ...


class StatusWriter:
    """Writes the documents of a ``Ready``: what there is every ``flush_seconds``, ``in_flight`` at a time.

    If there are more than may be taken at once, the rest follows without a pause.
    """

    def __init__(
        self,
        answers: Answers,
        target: StatusClient,
        *,
        clock: Callable[[], float],
        in_flight: int,
        fence: Callable[[], int],
        may_write: Callable[[], bool],
        on_fenced: Callable[[int], None],
        on_written: Callable[[Name], None] | None = None,
    ) -> None:
        self._on_written = on_written
        self._answers, self._target, self._clock = answers, target, clock
        self._in_flight, self._fence, self._may_write, self._on_fenced = in_flight, fence, may_write, on_fenced
        self._away = False
        self._pushed: asyncio.Queue[Sequence[StatusWrite]] = asyncio.Queue()
        self.is_idle = False
        """Whether it is ready for ``push``."""

    def push(self, items: Sequence[StatusWrite]) -> None:
        """Write these documents, possibly none.  Only while idle."""
        self.is_idle = False
        self._pushed.put_nowait(items)

    async def run(self, idle: Callable[[], None], *, flush_seconds: float) -> None:
        """Run until cancelled.  ``idle`` is called whenever it is ready for ``push``."""
        more = False
        while True:
            await asyncio.sleep(AWAY_SECONDS if self._away else 0 if more else flush_seconds)
            more = False
            if self._may_write():
                self.is_idle = True
                idle()
                try:
                    writes = await self._pushed.get()
                finally:
                    self.is_idle = False
                more = len(writes) >= WRITES_MAX
                await self.write(writes)

    async def write(self, writes: Sequence[StatusWrite]) -> None:
        """Write each once; what cannot be attempted still has to be written."""
        self._away = False
        queue = list(reversed(writes))

        async def work() -> None:
            while queue:
                write = queue.pop()
                if self._away or not self._may_write():
                    self._answers.unwritten(write.wanted, self._clock())
                else:
                    await self._write(write)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._in_flight, len(queue))):
                group.create_task(work())

    async def _write(self, write: StatusWrite) -> None:
        wanted, observed, fence = write.wanted, write.observed, self._fence()
        there: Observed | None = None
        if observed is not None and write.is_over_absurd(fence):
            _log.warning("status_fence_absurd", name="/".join(wanted.name), seen=observed.fence, fence=fence)
        if isinstance(wanted, Removal):
            answer = await self._target.remove(wanted, observed, fence)
        else:
            answer, there = await self._target.put(wanted, observed, fence)
        reason = self._target.refusal(wanted.name) if answer is WriteOutcome.FORBIDDEN else ""
        if self._answers.answered(wanted, answer, there, self._clock(), reason=reason):
            _log.warning("status_refused", name="/".join(wanted.name), reason=reason, remedy=REFUSED_REMEDY)
        if self._on_written is not None and answer is WriteOutcome.WRITTEN:
            self._on_written(wanted.name)
        self._away = self._away or answer in (WriteOutcome.RETRY, WriteOutcome.FENCED)
        if answer is WriteOutcome.FENCED:
            known = there or observed
            self._on_fenced(known.fence if known is not None else 0)


def _collection(name: Name) -> str:
    collection, namespace, _ = name
    return f"{api_group.ROOT}/namespaces/{namespace}/{collection}" if namespace else f"{api_group.ROOT}/{collection}"


def _path(name: Name) -> str:
    return f"{_collection(name)}/{urllib.parse.quote(name[2], safe='')}"


def _observed(raw: bytes, name: Name) -> Observed:
    """Raises ``UnreadableAnswer``."""
    try:
        found = api_json.own(raw)
        if (found.header.namespace, found.header.name) != name[1:] or not found.header.version:
            raise Malformed("it is a different document")
    except Malformed as error:
        raise UnreadableAnswer(f"the answer for {_path(name)} cannot be read: {error}") from None
    return Observed(
        version=found.header.version,
        generation=found.header.generation,
        status=found.status,
        head={"spec": found.spec},
        uid=found.header.uid,
    )
