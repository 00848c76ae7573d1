"""When a transaction ends by itself, and by what."""

from __future__ import annotations

from tests.support.topics.messaging_core import Core, publish

from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server.transactions.commands import Commit, RenewTransaction, Start
from fairlead_messaging.server.transactions.transaction import (
    Touched,
    Transaction,
    TransactionLimits,
    TransactionState,
    deadline,
    held_until_ms,
)

LIMITS = TransactionLimits(timeout_seconds_max=10, lifetime_seconds_max=100, hold_up_seconds_max=5)


def transaction(expires_ms: int, *touched: Touched) -> Transaction:
    return Transaction(
        pointer=1, state=TransactionState.IN_PROGRESS, started_ms=1000, expires_ms=expires_ms, touched=list(touched)
    )


def published(at_ms: int, hold_up_seconds: int = 0) -> Touched:
    first = Position(at_ms, 0)
    return Touched(namespace="n", name="t", generation=1, first=first, last=first, hold_up_seconds=hold_up_seconds)


def test_the_earliest_end_counts() -> None:
    """Not renewed, too old, or readers waited: whichever comes first, and only for what they wait for."""
    assert deadline(transaction(11_000), LIMITS, 2000) == (11_000, "timeout")
    assert deadline(transaction(101_000), LIMITS, 2000) == (101_000, "lifetime")
    assert deadline(transaction(11_000, published(2000)), LIMITS, 2000) == (7000, "hold_up")
    assert deadline(transaction(11_000, published(2000, 60)), LIMITS, 2000) == (11_000, "timeout")
    assert deadline(transaction(11_000, published(3000, 60), published(9000, 1)), LIMITS, 9000) == (10_000, "hold_up")
    stored = Touched(namespace="n", name="t", generation=1, pending_rows=7)
    assert deadline(transaction(11_000, stored), LIMITS, 2000) == (11_000, "timeout")


def test_a_position_ahead_of_the_clock_counts_from_the_start() -> None:
    """A clock that was once a year ahead must not let one transaction hold up readers for a year."""
    ahead = published(10**9)
    assert held_until_ms(transaction(11_000, ahead), ahead, LIMITS, 2000) == 6000
    assert deadline(transaction(11_000, ahead), LIMITS, 2000) == (6000, "hold_up")


def test_a_record_of_an_earlier_version_has_the_timeout_it_began_with() -> None:
    """It did not write it down."""
    assert transaction(11_000).timeout == 10


def test_a_clock_set_back_a_little_ends_no_transaction_of_hours() -> None:
    """It publishes at the end of its work, and the clock is set back by a millisecond in between."""
    core = Core()
    core.create("t")
    pointer = core.do(Start(timeout_seconds=600)).transaction.pointer
    for _ in range(24):
        core.now_ms += 300_000
        core.do(RenewTransaction(pointer=pointer))
    core.do(publish("t", "other"))
    core.now_ms -= 1
    core.do(publish("t", "mine", pointer=pointer))
    assert core.do(Commit(pointer=pointer, changes=[])).state is TransactionState.COMMITTED
