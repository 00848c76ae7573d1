"""What transactions need beside their commands is done without being asked for."""

from __future__ import annotations

from tests.support.messaging import serving, until

from fairlead_messaging.server.transactions.commands import Abort, Start


async def test_a_transaction_whose_time_is_up_ends_by_itself() -> None:
    """However the clock came to be later."""
    async with serving() as topics:
        await topics.broker.change(Start(timeout_seconds=5))
        assert topics.broker.in_progress == 1
        topics.clock.forward(6000)
        await until(lambda: topics.broker.in_progress == 0)


async def test_rows_of_an_aborted_transaction_are_marked_by_themselves() -> None:
    """So that no reader needs to know its pointer."""
    async with serving() as topics:
        await topics.create("t")
        started = await topics.broker.change(Start(timeout_seconds=30))
        await topics.publish("t", "a", tx=started.transaction.pointer)
        await topics.broker.change(Abort(pointer=started.transaction.pointer))
        await until(lambda: topics.broker.unmarked == 0)
