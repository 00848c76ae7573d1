"""Sends the statuses that programs report of objects to the hub, and stores the rules by which they may report.

statuses.patch ─▶ Sending ─▶ link: report ─ack, nack─▶ statuses.settle
hub: rules ─▶ statuses.replace_rules
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from fairlead_edge.errors import LinkDown, StoreFailed
from fairlead_edge.objects.metastore import HeldObject, key_of
from fairlead_edge.objects.statuses import status_store
from fairlead_edge.objects.statuses.sending import Sending
from fairlead_edge.objects.statuses.status_store import Key, Outgoing, StatusStore, StatusSummary
from fairlead_edge.objects.watch_history import VersionedChange, WatchHistory
from fairlead_wire import message
from fairlead_wire.errors import RemoteError, Temporary
from fairlead_wire.io import logs
from fairlead_wire.link import codec

ANSWER_SECONDS_MAX: Final = 120.0
"""The timeout for an answer; then the report is sent again."""
RULES_RETRY_SECONDS: Final = 5.0

_log = logs.get("edge.statuses")


class ReportLink(Protocol):
    """The methods of ``Link`` used here."""

    @property
    def takes_reports(self) -> bool: ...
    def on_open(self, listener: Callable[[], None]) -> None: ...
    async def send_report(
        self, resource: str, uid: str, force: message.Force, encoding: message.Encoding, content: bytes
    ) -> message.Ack | message.Nack: ...


class StatusSender:
    """Sends reported statuses.  Call ``follow`` with a link before ``run``."""

    def __init__(self, statuses: StatusStore, log: WatchHistory[HeldObject], random: Random) -> None:
        self._statuses, self._random = statuses, random
        self._sending = Sending()
        self._link: ReportLink | None = None
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest_rules: tuple[message.StatusRules, bytes] | None = None
        self.counters: Counter[str] = Counter()
        """Reports sent, written, refused, put off, lost with the link; rules received."""
        statuses.listen(self._put)
        log.listen(self._changed)

    @property
    def lines(self) -> list[StatusSummary]:
        """All statuses reported on this node, the least recently changed first."""
        return list(self._sending.lines.values())

    def counts(self) -> Counter[str]:
        """The number of statuses by state."""
        return self._sending.counts()

    @property
    def rules_digest(self) -> str:
        return self._statuses.known.digest

    def follow(self, link: ReportLink) -> None:
        """Use this link."""
        self._link = link
        link.on_open(self._wake.set)

    def rules_received(self, header: message.StatusRules, content: bytes) -> None:
        """The hub sent new rules for statuses."""
        self._newest_rules = header, content
        self._wake.set()

    async def run(self) -> None:
        """Send statuses and store rules; runs until cancelled.  Raises ``StoreFailed``."""
        for line in await self._statuses.lines():
            if line.key not in self._sending.lines:
                self._sending.put(line)
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._wake.clear()
                await self._store_rules()
                due = self._start()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), None if due is None else max(0.0, due - loop.time()))
                for done in [task for task in self._tasks if task.done()]:
                    self._tasks.discard(done)
                    done.result()
        finally:
            for task in self._tasks:
                task.cancel()

    async def _store_rules(self) -> None:
        if self._newest_rules is None:
            return
        header, content = self._newest_rules
        try:
            await self._statuses.replace_rules(
                status_store.unpacked(header, content) if header.digest else b"", header.digest
            )
        except RemoteError as error:
            _log.warning("status_rules_malformed", reason=str(error))
        except Temporary as error:  # a full disk: the old rules stay in force
            _log.warning("status_rules_not_kept", reason=str(error))
            asyncio.get_running_loop().call_later(RULES_RETRY_SECONDS, self._wake.set)
            return
        self.counters["rules_received"] += 1
        if self._newest_rules == (header, content):
            self._newest_rules = None
        else:
            self._wake.set()

    def _start(self) -> float | None:
        """Start sending what is due; returns when the next one is."""
        loop = asyncio.get_running_loop()
        if self._link is None or not self._link.takes_reports:
            return None
        while (key := self._sending.next(loop.time())) is not None:
            task = loop.create_task(self._send(self._link, key))
            self._tasks.add(task)
            task.add_done_callback(lambda _: self._wake.set())
        return self._sending.next_at(loop.time())

    async def _send(self, link: ReportLink, key: Key) -> None:
        before = self._sending.lines.get(key)
        found = await self._statuses.outgoing(key)
        if found is None:
            self._sending.lost(key)
            if self._sending.lines.get(key) is before:  # the object was removed, or its row is damaged
                self._sending.gone(key)
            return
        encoding, content = codec.pack(found.status)
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                answer = await link.send_report(found.resource.path, found.uid, found.force, encoding, content)
        except LinkDown:
            self.counters["lost"] += 1
            self._sending.lost(key)
            return
        except TimeoutError:
            answer = message.Nack(parent_id=0, code="no_answer", reason="the hub did not answer")
        self.counters["sent"] += 1
        try:
            await self._answered(key, found, answer)
        except StoreFailed:
            raise
        except Temporary as error:  # the answer is not stored, so the same status is sent again, which is harmless
            self._later(key, found, error.retry_after_seconds, everything=False)

    async def _answered(self, key: Key, found: Outgoing, answer: message.Ack | message.Nack) -> None:
        if isinstance(answer, message.Nack) and not answer.permanent:
            self.counters["put_off"] += 1
            _log.debug("status_put_off", object=found.resource.path, code=answer.code, reason=answer.reason)
            self._later(key, found, answer.retry_after, everything=answer.scope == "hub")
            return
        code = reason = ""
        if isinstance(answer, message.Nack):
            code, reason = answer.code or "refused", answer.reason[: message.REASON_CHARS_MAX]
            remedy = "fix the cause and let the program report again; GET /v1/statuses lists all"
            _log.warning("status_refused", object=found.resource.path, code=code, reason=reason, remedy=remedy)
        await self._statuses.settle(key, found.uid, found.sequence, code=code, reason=reason)
        self.counters["refused" if code else "written"] += 1
        self._sending.settled(key, found.sequence, code=code, reason=reason)

    def _later(self, key: Key, found: Outgoing, asked: float | None, *, everything: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._sending.later(key, found.sequence, now, self._random.random(), asked=asked, everything=everything)

    def _put(self, line: StatusSummary) -> None:
        self.counters["reported"] += 1
        self._sending.put(line)
        self._wake.set()

    def _changed(self, change: VersionedChange[HeldObject]) -> None:
        before, after = change.previous, change.current
        if before is not None and before.report and (after is None or after.uid != before.uid):
            self._sending.gone(key_of(before.resource))
