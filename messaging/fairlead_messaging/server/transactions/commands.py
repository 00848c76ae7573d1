"""The commands on transactions."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server.access import UNRESTRICTED, Caller
from fairlead_messaging.server.commands import Command, T, TopicCommand
from fairlead_messaging.server.log.rows import Messages
from fairlead_messaging.server.transactions.manager import StartedTransaction
from fairlead_messaging.server.transactions.transaction import Transaction


class TransactionCommand(Command[T]):
    """A command on transactions; afterwards some may have to be ended or marked."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(TransactionCommand[StartedTransaction]):
    """Begin a transaction, which becomes invalid after ``timeout_seconds`` unless it is renewed."""

    timeout_seconds: float
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewTransaction(TransactionCommand[Transaction]):
    """Let a transaction time out that long from now; None: after its own timeout."""

    pointer: int
    timeout_seconds: float | None = None
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(TransactionCommand[Transaction]):
    """Commit a transaction, or abort it if another one changed the same keys; answers which."""

    pointer: int
    changes: list[str]
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort(TransactionCommand[Transaction]):
    """Abort a transaction; its messages are never shown."""

    pointer: int
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalidate(TransactionCommand[Transaction]):
    """Invalidate a transaction for an operator, even after its deadline."""

    pointer: int
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireTransactions(TransactionCommand[tuple[Transaction, ...]]):
    """Invalidate transactions that timed out or held up readers for too long; answers which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkAborted(TransactionCommand[bool]):
    """Mark a bounded number of rows of aborted transactions and rollbacks; answers whether there is more to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneTransactions(TransactionCommand[bool]):
    """Remove a bounded number of transactions that finished long ago; answers whether there is more to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(TopicCommand[None]):
    """Store payloads for a later publish under the same pointer."""

    messages: Messages
    pointer: int
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback(TopicCommand[None]):
    """Hide what one transactional publish stored."""

    pointer: int
    first: Position
    last: Position
    by: Caller = UNRESTRICTED
