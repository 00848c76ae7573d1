"""Each command on transactions is answered by what it is typed with."""

from __future__ import annotations

from tests.support.topics.messaging_core import NAMESPACE, Core, answers_as_typed, publish

from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.transactions.commands import (
    Abort,
    Commit,
    ExpireTransactions,
    Invalidate,
    MarkAborted,
    PruneTransactions,
    RenewTransaction,
    Rollback,
    Start,
    Store,
)


def test_each_command_on_transactions_is_answered_by_its_type() -> None:
    """A command that is typed wrongly would be believed by every caller."""
    core = Core()
    core.create("t")
    answers_as_typed(core, Start(timeout_seconds=30))
    one, two, three = (core.do(Start(timeout_seconds=30)).transaction.pointer for _ in range(3))
    answers_as_typed(core, RenewTransaction(pointer=one))
    answers_as_typed(core, Store(namespace=NAMESPACE, name="t", messages=[LoggedMessage(b"a")], pointer=one))
    published = core.do(publish("t", pointer=one))
    answers_as_typed(
        core, Rollback(namespace=NAMESPACE, name="t", pointer=one, first=published.first, last=published.last)
    )
    answers_as_typed(core, Commit(pointer=one, changes=[]))
    answers_as_typed(core, Abort(pointer=two))
    answers_as_typed(core, Invalidate(pointer=three))
    for command in (ExpireTransactions(), MarkAborted(), PruneTransactions()):
        answers_as_typed(core, command)
