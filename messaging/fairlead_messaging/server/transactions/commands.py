"""What the one writer can be asked to change about transactions."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server.access import UNRESTRICTED, Caller
from fairlead_messaging.server.commands import Command, T, TopicCommand
from fairlead_messaging.server.log.rows import Messages
from fairlead_messaging.server.transactions.manager import StartedTransaction
from fairlead_messaging.server.transactions.transaction import Transaction


class TransactionCommand(Command[T]):
    """On transactions as such; afterwards some may have to be ended or marked."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(TransactionCommand[StartedTransaction]):
    """Begin one; it becomes invalid after ``timeout_seconds`` unless it is renewed."""

    timeout_seconds: float
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewTransaction(TransactionCommand[Transaction]):
    """Let it live on, as if it had begun now; None: by its own timeout."""

    pointer: int
    timeout_seconds: float | None = None
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(TransactionCommand[Transaction]):
    """Answers it committed or, when another one changed the same keys, aborted."""

    pointer: int
    changes: list[str]
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort(TransactionCommand[Transaction]):
    """Its messages are never shown."""

    pointer: int
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalidate(TransactionCommand[Transaction]):
    """As an operator: also one whose time is up."""

    pointer: int
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireTransactions(TransactionCommand[tuple[Transaction, ...]]):
    """Transactions whose time is up, or that held up readers for too long, become invalid; answers which did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkAborted(TransactionCommand[bool]):
    """Mark rows of aborted transactions and of rollbacks, a bounded number; answers whether there is more to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneTransactions(TransactionCommand[bool]):
    """Forget transactions that finished long ago, a bounded number; answers whether there is more to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(TopicCommand[None]):
    """Payloads kept for a later publish under the same pointer."""

    messages: Messages
    pointer: int
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback(TopicCommand[None]):
    """Never show what one transactional publish stored."""

    pointer: int
    first: Position
    last: Position
    by: Caller = UNRESTRICTED
