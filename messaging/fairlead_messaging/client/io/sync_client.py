"""The client of the messaging service for programs without an event loop; ``async_client`` has the asyncio one.

    with Client("http://127.0.0.1:11015") as client:
        client.publish("default", "orders", [b"1"])
        for message in client.messages("default", "orders"): …

Methods, errors, retries and what is safe to repeat are those of ``AsyncClient``.  Any number of threads may share a
``Client``; each request has a connection to itself.  It may be carried over a fork (the child makes its own
connections) and pickled (only its settings travel), as Spark does with what a closure names.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Self, TypeVar, Unpack

from fairlead_messaging.api import headers
from fairlead_messaging.api.responses import Message
from fairlead_messaging.api.routes import BACKUP
from fairlead_messaging.client import errors, retry, script, transaction_coordinator
from fairlead_messaging.client.cursor import Cursor, ReadOptions
from fairlead_messaging.client.io.connections import (
    ANSWER_BYTES_MAX,
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Connections,
    Download,
    Tls,
)
from fairlead_messaging.client.methods import BlockingClient, Methods
from fairlead_messaging.client.request import ClientRequest
from fairlead_messaging.client.script import Pause
from fairlead_wire.delivery_policy import DeliveryPolicy

T = TypeVar("T")
BACKUP_PIECE_SECONDS = 60.0
"""The first piece waits for a snapshot, each for the disk of the service."""
REFUSAL_BYTES_MAX = 64 * 1024


class Client(Methods, BlockingClient):
    """Arguments as for ``AsyncClient``; TLS by files only, which are read again when they change."""

    def __init__(
        self,
        base_url: str,
        *,
        tls: Tls | None = None,
        timeout_seconds: float = ANSWER_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
        retries: DeliveryPolicy | None = None,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        self._made_of: dict[str, Any] = {
            "tls": tls,
            "timeout_seconds": timeout_seconds,
            "connect_seconds": connect_seconds,
            "retries": retries,
            "answer_bytes_max": answer_bytes_max,
        }
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._connections = Connections(
            base_url, tls=tls, connect_seconds=connect_seconds, answer_bytes_max=answer_bytes_max
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self._connections.base_url, **self._made_of), ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections that are idle; another call makes new ones."""
        self._connections.close()

    def messages(self, namespace: str, name: str, **reading: Unpack[ReadOptions]) -> Iterator[Message]:
        """Every message from a start on, page by page; arguments: ``ReadOptions``.

        To go on another day start from the last message's id with ``inclusive=False``.
        """
        cursor = Cursor(namespace, name, **reading)
        while cursor.more:
            yield from cursor.take(self.do(cursor.ask()))

    def backup(self) -> Download:
        """Everything the service stores, to be read piece by piece and closed; it is whole if it ends with its end
        frame.  Raises: as every method; it is not repeated."""
        found = self._connections.download(BACKUP.path, {"Accept": headers.BACKUP}, piece_seconds=BACKUP_PIECE_SECONDS)
        if found.status != 200:
            with found:
                body = found.read(REFUSAL_BYTES_MAX)
            raise errors.of(f"GET {BACKUP.path}", found.status, found.headers, body)
        return found

    def do(self, asked: ClientRequest[T]) -> T:
        """Send any request of ``client.requests``, as often as it needs and ``retries`` allow."""
        return script.perform(retry.send(asked, self._retries, random.random), self._attempt)

    def commit(self, pointer: int, changes: Sequence[str] = ()) -> None:
        """As ``finish_transaction``, and asks again for half a minute without an answer; then it raises ``InDoubt``."""
        script.perform(transaction_coordinator.commit(pointer, changes), self.take)

    def take(self, step: ClientRequest[Any] | Pause) -> Any:
        """A step of a script: do the request, or wait."""
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        return self.do(step)

    def _attempt(self, step: ClientRequest[Any] | Pause) -> Any:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        return self._connections.exchange(
            step.method,
            step.path,
            step.body,
            step.headers,
            answer_seconds=self._timeout_seconds + step.wait_seconds,
        )
