"""Messages and a real database stand or fall together, without an event loop; more in the conformance suite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.messaging_service import MessagingService

from fairlead_messaging.client.io.sync_client import SyncMessagingClient
from fairlead_messaging.client.io.sync_transaction_context import SyncUnitOfWork


class Orders:
    """A table whose rows are told of in a topic."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute("CREATE TABLE orders (name TEXT)")
        self._wanted: list[str] = []
        self._before = 0

    def add(self, name: str) -> None:
        self._wanted.append(name)

    def names(self) -> list[str]:
        return [name for (name,) in self._database.execute("SELECT name FROM orders")]

    def changes(self) -> Sequence[str]:
        return [f"orders/{name}" for name in self._wanted]

    def persist(self) -> None:
        with self._database:
            self._database.executemany("INSERT INTO orders VALUES (?)", [(name,) for name in self._wanted])

    def rollback(self) -> None:
        with self._database:
            self._database.executemany("DELETE FROM orders WHERE name = ?", [(name,) for name in self._wanted])


@pytest.mark.process
def test_rows_and_messages_stand_or_fall_together(tmp_path: Path) -> None:
    """Both after the block; neither after an error in it."""
    with MessagingService(tmp_path / "service") as service, SyncMessagingClient(service.url) as client:
        service.create("default/orders")

        def seen() -> list[bytes]:
            return [message.payload for message in client.messages("default", "orders")]

        good = Orders(tmp_path / "good")
        with SyncUnitOfWork(client, participants=[good]) as work:
            good.add("1")
            work.publish("default", "orders", [b"1"])
            assert (good.names(), seen()) == ([], [])
        assert (good.names(), seen()) == (["1"], [b"1"])
        bad = Orders(tmp_path / "bad")
        with pytest.raises(ZeroDivisionError), SyncUnitOfWork(client, participants=[bad]) as work:
            bad.add("2")
            work.publish("default", "orders", [b"2"])
            raise ZeroDivisionError
        assert (bad.names(), seen()) == ([], [b"1"])
        assert client.transactions() == []
