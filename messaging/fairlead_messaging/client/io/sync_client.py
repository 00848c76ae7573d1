"""The clients for programs without an event loop; ``async_client`` has their counterpart for asyncio.

    with Client("http://127.0.0.1:11015") as client:
        client.publish("default", "orders", [b"1"])
        for message in client.messages("default", "orders"): …

``BulkClient`` is for batch engines: it names topics ``namespace/name``, reads Arrow pages, and stores rows in
transactions.
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
from fairlead_messaging.client import errors, requests, retry, script, transaction
from fairlead_messaging.client.cursor import Cursor, ReadOptions
from fairlead_messaging.client.io.connections import (
    ANSWER_BYTES_MAX,
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Connections,
    Download,
    Tls,
    check_options,
)
from fairlead_messaging.client.methods import BlockingClient, Method, Methods, on_topic
from fairlead_messaging.client.request import ClientRequest, split
from fairlead_messaging.client.script import Pause
from fairlead_wire.delivery_policy import DeliveryPolicy

T = TypeVar("T")
BACKUP_PIECE_SECONDS = 60.0
"""For each piece: the first one has to wait until the service has taken a snapshot."""
REFUSAL_BYTES_MAX = 64 * 1024


class Client(Methods, BlockingClient):
    """Has the methods, arguments, errors and retries of ``AsyncClient``, except that TLS takes files only.

    Threads may share a ``Client``; each request has a connection to itself.  It may be used after a fork (the child
    opens its own connections) and pickled (only its settings are), as Spark pickles the variables of a closure.
    """

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
        check_options(tls, retries)
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
        """Close the idle connections; another call opens new ones."""
        self._connections.close()

    def messages(self, namespace: str, name: str, **reading: Unpack[ReadOptions]) -> Iterator[Message]:
        """Every message from a start on, page by page; arguments: ``ReadOptions``.

        To continue later, start from the last message's id with ``inclusive=False``.
        """
        cursor = Cursor(namespace, name, **reading)
        while cursor.more:
            yield from cursor.take(self.do(cursor.ask()))

    def backup(self) -> Download:
        """Everything the service stores, to be read in pieces and closed; complete only if it ends with an end frame.

        Never retried; raises as every method.
        """
        found = self._connections.download(BACKUP.path, {"Accept": headers.BACKUP}, piece_seconds=BACKUP_PIECE_SECONDS)
        if found.status != 200:
            with found:
                body = found.read(REFUSAL_BYTES_MAX)
            raise errors.from_response(
                f"GET {BACKUP.path}", found.status, found.headers, body, url=self._connections.base_url
            )
        return found

    def do(self, asked: ClientRequest[T]) -> T:
        """Send any request of ``client.requests``, with the client's ``retries``."""
        return script.perform(retry.send(asked, self._retries, random.random), self._attempt)

    def commit(self, pointer: int, changes: Sequence[str] = ()) -> None:
        """Commit, and repeat that for half a minute while no answer comes; then raise ``InDoubt``.

        Raises otherwise as ``finish_transaction``.
        """
        script.perform(transaction.commit(pointer, changes), self.take)

    def take(self, step: ClientRequest[Any] | Pause) -> Any:
        """Perform a step of a script: send the request, or wait."""
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


class BulkClient(BlockingClient):
    """Reads and writes topics (``namespace/name``) for batch engines.

        plan(after, upto, limits) ─→ ranges ─→ poll(range) ─→ ArrowPage(table, …) ─→ …
        start_transaction ─→ store_in… ─→ publish_stored ─→ commit

    It never retries, because its caller knows how long it may wait; only ``commit`` does, which must not end in doubt.
    It cannot be pickled: make one in each process.
    """

    def __init__(
        self,
        base_url: str,
        *,
        tls: Tls | None = None,
        timeout_seconds: float = ANSWER_SECONDS,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        self._client = Client(
            base_url,
            tls=tls,
            timeout_seconds=timeout_seconds,
            connect_seconds=timeout_seconds,
            answer_bytes_max=answer_bytes_max,
        )
        self.base_url = base_url.rstrip("/")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the client may be used again and opens a new one."""
        self._client.close()

    plan = Method(on_topic(requests.plan))
    poll = Method(on_topic(requests.poll_arrow))
    offsets = Method(on_topic(requests.offsets))
    note_reader = Method(on_topic(requests.note_reader))

    def do(self, asked: ClientRequest[T]) -> T:
        """Send any request of ``client.requests``, once."""
        return self._client.do(asked)

    def take(self, step: ClientRequest[Any] | Pause) -> Any:
        """Perform a step of a script: send the request, or wait."""
        return self._client.take(step)

    # --- writing

    def start_transaction(self, timeout_seconds: float) -> int:
        """Begin a transaction and return its pointer. Raises as ``plan``."""
        return self._client.start_transaction(timeout_seconds).transactionWritePointer

    def renew_transaction(self, pointer: int, timeout_seconds: float | None = None) -> None:
        """Let it time out ``timeout_seconds`` from now. Raises ``TransactionOver``, otherwise as ``plan``."""
        self._client.renew_transaction(pointer, timeout_seconds)

    def store_in(self, pointer: int, topic: str, payloads: Sequence[bytes]) -> None:
        """Store under a transaction; never retried, because a repeat would store it twice. Raises as ``plan``."""
        self._client.store_in(pointer, *split(topic), payloads)

    def publish_stored(self, pointer: int, topic: str) -> None:
        """Publish what was stored under a transaction. Raises as ``plan``."""
        self._client.publish_in(pointer, *split(topic), ())

    def commit(self, pointer: int) -> None:
        """Commit; waits up to half a minute for an answer. It also succeeds if an attempt without an answer committed.

        Raises ``InDoubt`` if no answer comes, ``TransactionOver`` if it can no longer be committed.
        """
        self._client.commit(pointer)

    def abort(self, pointer: int) -> None:
        """Abort: what was stored never becomes visible. Raises ``TransactionOver`` if it has ended."""
        self._client.finish_transaction(pointer, "abort")
