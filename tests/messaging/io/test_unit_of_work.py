"""Messages and other changes stand or fall together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.messaging import Topics

from fairlead_messaging.io.client import MessagingClient
from fairlead_messaging.io.unit_of_work import UnitOfWork
from fairlead_wire.errors import LocalError, Permanent


class Table:
    """A participant that remembers what it was asked, and fails where told."""

    def __init__(self, *, failing: str = "", changes: Sequence[str] = ()) -> None:
        self.calls: list[str] = []
        self._failing = failing
        self._changes = changes

    def changes(self) -> Sequence[str]:
        return self._changes

    async def persist(self) -> None:
        self._call("persist")

    async def rollback(self) -> None:
        self._call("rollback")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self._failing:
            raise RuntimeError(name)


async def test_messages_become_visible_with_the_commit(topics: Topics) -> None:
    """Participants persist first; inside, the work's own snapshot sees nothing yet, for messages go last."""
    await topics.create("t")
    table = Table()
    async with MessagingClient(topics.url) as client:
        async with UnitOfWork(client, participants=[table]) as work:
            await work.publish("default", "t", [b"a", b"b"])
            assert (await client.poll("default", "t", transaction=work.started.transaction)).messages == ()
        assert [each.payload async for each in client.messages("default", "t")] == [b"a", b"b"]
    assert table.calls == ["persist"]


@pytest.mark.parametrize("where", ["inside", "persist"])
async def test_a_failure_anywhere_hides_everything(topics: Topics, where: str) -> None:
    """The error goes on to the caller, everybody is rolled back."""
    await topics.create("t")
    one, two = Table(), Table(failing=where)
    async with MessagingClient(topics.url) as client:
        with pytest.raises((RuntimeError, ZeroDivisionError)):
            async with UnitOfWork(client, participants=[one, two]) as work:
                await work.publish("default", "t", [b"a"])
                if where == "inside":
                    raise ZeroDivisionError
        state = topics.broker._service.transactions.state(work.started.transactionWritePointer)
    assert state == "aborted"
    assert one.calls[-1] == two.calls[-1] == "rollback"
    assert await topics.committed("t") == []


async def test_a_failed_rollback_invalidates(topics: Topics) -> None:
    """What cannot be undone is hidden by name."""
    await topics.create("t")
    async with MessagingClient(topics.url) as client:
        with pytest.raises(ZeroDivisionError):
            async with UnitOfWork(client, participants=[Table(failing="rollback")]) as work:
                raise ZeroDivisionError
        state = topics.broker._service.transactions.state(work.started.transactionWritePointer)
    assert state == "invalid"
    assert [str(error) for error in work.failures] == ["rollback"]


async def test_a_full_buffer_is_stored_and_published_in_order(topics: Topics) -> None:
    """Whatever was stored on the way, readers see one order, once."""
    await topics.create("t")
    await topics.create("u")
    async with MessagingClient(topics.url) as client, UnitOfWork(client, buffer_bytes_max=10) as work:
        for number in range(9):
            await work.publish("default", "t", [f"{number:04}".encode()])
        await work.publish("default", "u", [b"x"])
    assert await topics.committed("t") == [f"{number:04}" for number in range(9)]
    assert await topics.committed("u") == ["x"]


async def test_a_conflict_rolls_back(topics: Topics) -> None:
    """The loser's messages are never visible."""
    await topics.create("t")
    async with MessagingClient(topics.url) as client:
        with pytest.raises(Permanent) as conflict:
            async with UnitOfWork(client, participants=[Table(changes=["k"])]) as loser:
                await loser.publish("default", "t", [b"loser"])
                async with UnitOfWork(client, participants=[Table(changes=["k"])]) as winner:
                    await winner.publish("default", "t", [b"winner"])
        assert conflict.value.code == "transaction_conflict"
    assert await topics.committed("t") == ["winner"]


async def test_outside_of_its_block_it_refuses(topics: Topics) -> None:
    """A mistake of the program's is told as one."""
    async with MessagingClient(topics.url) as client:
        with pytest.raises(LocalError):
            await UnitOfWork(client).publish("default", "t", [b"a"])
