"""The transaction manager while it is available, and the reason when it is not.

    available ─its tables cannot be read, or it fails→ unavailable
        ▲                                                                        │
        └──────────────────── read from the store again, once a second ──────────┘

Topics do not depend on it (seed: transactional messaging, "Requirements" 12): while it is unavailable, calls that need
transactions are refused with the reason, and the writer serves all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fairlead_messaging.api.errors import MessagingError
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV
from fairlead_messaging.server.transactions.manager import TransactionManager
from fairlead_messaging.server.transactions.transaction import TransactionLimits, TransactionsUnavailable

T = TypeVar("T")

RETRY_MS = 1000
"""How often its tables are read again while it is unavailable."""
REASON_CHARS_MAX = 500


class TransactionService:
    """Owned by the writer; ``reason`` is why transactions are unavailable, "" if they are available."""

    def __init__(self, kv: OrderedKV, limits: TransactionLimits | None = None) -> None:
        self._kv = kv
        self._limits = limits
        self._manager: TransactionManager | None = None
        self._last_pointer = 0
        self._tried_ms: int | None = None
        self._has_failed_in_batch = False
        """Whether the batch being built may have writes of the manager from before it failed, which the store lacks."""
        self.reason = ""
        self.failures = 0
        self._read_again()

    @property
    def present(self) -> TransactionManager | None:
        """The manager, or None while it is unavailable."""
        return self._manager

    def manager(self, now_ms: int) -> TransactionManager:
        """Raises: TransactionsUnavailable with the reason."""
        if self._manager is None and self._may_try(now_ms):
            self._tried_ms = now_ms
            self._read_again()
        return self.required()

    def required(self) -> TransactionManager:
        """The manager, without trying to read its tables again.  Raises: TransactionsUnavailable with the reason."""
        if self._manager is None:
            raise TransactionsUnavailable(self.reason)
        return self._manager

    def perform(self, do: Callable[[TransactionManager], T], batch: Batch, now_ms: int) -> T:
        """Call ``do`` with the manager.

        Raises: MessagingError as ``do`` does; TransactionsUnavailable after any other error, whose writes are removed
        from the batch.
        """
        manager, mark = self.manager(now_ms), batch.mark()
        try:
            return do(manager)
        except MessagingError:
            raise
        except Exception as error:
            batch.cut(mark)
            self._has_failed_in_batch = True
            self._fail(error)
            raise TransactionsUnavailable(self.reason) from error

    def applied(self) -> None:
        """Record that the batch is durable."""
        self._has_failed_in_batch = False
        if self._manager is not None:
            self._manager.batch_applied()

    def forget(self) -> None:
        """Read all state again after a failed batch."""
        self._has_failed_in_batch = False
        self._tried_ms = None
        self._drop()
        self._read_again()

    def _may_try(self, now_ms: int) -> bool:
        if self._has_failed_in_batch:
            return False
        return self._tried_ms is None or abs(now_ms - self._tried_ms) >= RETRY_MS  # the clock may be set back

    def _read_again(self) -> None:
        try:
            self._manager = TransactionManager(self._kv, self._last_pointer, self._limits)
        except Exception as error:  # noqa: BLE001 - topics must work whatever is in these tables
            self._fail(error)
        else:
            self.reason = ""

    def _fail(self, error: Exception) -> None:
        self.failures += 1
        reason = error.reason if isinstance(error, TransactionsUnavailable) else str(error)
        self.reason = (reason or type(error).__name__)[:REASON_CHARS_MAX]
        self._drop()

    def _drop(self) -> None:
        if self._manager is not None:
            self._last_pointer = self._manager.last_pointer
        self._manager = None
