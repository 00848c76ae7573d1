"""Background work for transactions: ends those that time out, and marks the rows of those that did not commit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.api.responses import EndedBy
from fairlead_messaging.server.io.committer import Committer
from fairlead_messaging.server.service import Service
from fairlead_messaging.server.transactions.commands import ExpireTransactions, MarkAborted
from fairlead_messaging.server.transactions.transaction import Transaction
from fairlead_wire.io import logs

LATE_SECONDS_MAX = 0.25
"""How late a timeout may be noticed after the clock was set."""

ENDINGS: tuple[EndedBy, ...] = ("timeout", "lifetime", "hold_up")
TOPICS_LOGGED_MAX = 10

RECOVER_SECONDS = 0.5
"""How often to try while transactions are unavailable; the writer reads the tables again once a second."""

_log = logs.get("messaging.transactions")


class TransactionKeeper:
    """``run`` it as a task; ``notify`` it when a transaction began, ended or was rolled back."""

    def __init__(self, committer: Committer, service: Service, now_ms: Callable[[], int]) -> None:
        self._committer = committer
        self._service = service
        self._now_ms = now_ms
        self._changed = asyncio.Event()
        self.ended = dict.fromkeys(ENDINGS, 0)
        """How many transactions this service ended by itself, by reason."""
        self._reason = ""
        """Why transactions are unavailable, as logged last."""

    def _note_ended(self, ended: Iterable[Transaction]) -> None:
        for each in ended:
            self.ended[each.ended_by] += 1
            _log.warning(
                "transaction_ended", transaction=each.pointer, reason=each.ended_by,
                seconds=(each.finished_ms - each.started_ms) / 1000,
                topics=[f"{touched.namespace}/{touched.name}" for touched in each.touched[:TOPICS_LOGGED_MAX]],
            )  # fmt: skip

    def notify(self) -> None:
        self._changed.set()

    async def finish_rollback(self, pointer: int) -> None:
        """Returns once no rollback of this transaction is in progress."""
        while any(each.pointer == pointer for each in self._rolling()):
            await self._committer.submit(MarkAborted())

    def _rolling(self) -> Sequence[Transaction]:
        manager = self._service.transaction_service.present
        return manager.rolling if manager is not None else ()

    async def run(self) -> None:
        """Forever end transactions that time out, and mark the rows of aborted ones."""
        self._changed.set()  # what an earlier run left behind
        while True:
            manager = self._service.transaction_service.present
            if manager is None:
                await self._recover()
                continue
            expiry = manager.next_deadline_ms(self._now_ms())
            if not self._changed.is_set() and (expiry is None or expiry >= self._now_ms()):
                # Not simply until the next timeout: the clock may be set, and a client that began or ended a
                # transaction may have disconnected before that was done.
                due_seconds = LATE_SECONDS_MAX if expiry is None else (expiry + 1 - self._now_ms()) / 1000
                timeout = min(due_seconds, LATE_SECONDS_MAX)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), timeout)
            self._changed.clear()
            try:
                if expiry is not None and expiry < self._now_ms():
                    expired = await self._committer.submit(ExpireTransactions())
                    self._note_ended(expired)
                while (manager := self._service.transaction_service.present) and (manager.unmarked or manager.rolling):
                    await self._committer.submit(MarkAborted())
            except Unavailable as error:
                _log.warning("transactions_not_tended", reason=error.message)
                self._changed.set()
                await asyncio.sleep(error.retry_after_seconds)

    async def _recover(self) -> None:
        """Have the transaction tables read again, once a second, until that succeeds."""
        reason = self._service.transaction_service.reason
        if reason != self._reason:
            self._reason = reason
            _log.error(
                "transactions_unavailable", reason=reason,
                remedy="publishing and reading without transactions still work; the tables are read again every second,"
                " and if that keeps failing, restore data_dir from a backup",
            )  # fmt: skip
        try:
            expired = await self._committer.submit(ExpireTransactions())
        except Unavailable:
            await asyncio.sleep(RECOVER_SECONDS)
        else:
            self._reason = ""
            self._note_ended(expired)
            _log.info("transactions_available")
            self._changed.set()
