"""For batch engines: topics as ``namespace/name``, Arrow pages, and transactions that store rows.

plan(after, upto, limits) ─→ ranges ─→ poll(range) ─→ ArrowPage(table, …) ─→ …
start_transaction ─→ store_in… ─→ publish_stored ─→ commit

A ``BulkClient`` must be made where it is used; it is not pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar

from fairlead_messaging.client import requests
from fairlead_messaging.client.io.connections import ANSWER_BYTES_MAX, ANSWER_SECONDS, Tls
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.client.methods import BlockingClient, Method, on_topic
from fairlead_messaging.client.request import ClientRequest, split
from fairlead_messaging.client.script import Pause

T = TypeVar("T")


class BulkClient(BlockingClient):
    """Reads and writes topics (``namespace/name``) for batch engines.

    It does not wait by itself, because its caller knows how long it may; only ``commit`` does, which must not end in
    doubt.
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
        """Give the connection back; the client may be used again and will make a new one."""
        self._client.close()

    plan = Method(on_topic(requests.plan))
    poll = Method(on_topic(requests.poll_arrow))
    offsets = Method(on_topic(requests.offsets))
    note_reader = Method(on_topic(requests.note_reader))

    def do(self, asked: ClientRequest[T]) -> T:
        """Send any request of ``client.requests``, once."""
        return self._client.do(asked)

    def take(self, step: ClientRequest[Any] | Pause) -> Any:
        """A step of a script: do the request, or wait."""
        return self._client.take(step)

    # --- writing

    def start_transaction(self, timeout_seconds: float) -> int:
        """The pointer of a new transaction. Raises as ``plan``."""
        return self._client.start_transaction(timeout_seconds).transactionWritePointer

    def renew_transaction(self, pointer: int, timeout_seconds: float | None = None) -> None:
        """Let it live on, so long from now. Raises ``TransactionOver``, else as ``plan``."""
        self._client.renew_transaction(pointer, timeout_seconds)

    def store_in(self, pointer: int, topic: str, payloads: Sequence[bytes]) -> None:
        """Store under a transaction; never sent twice, because it would be stored twice. Raises as ``plan``."""
        self._client.store_in(pointer, *split(topic), payloads)

    def publish_stored(self, pointer: int, topic: str) -> None:
        """Publish what was stored under a transaction. Raises as ``plan``."""
        self._client.publish_in(pointer, *split(topic), ())

    def commit(self, pointer: int) -> None:
        """Commit; also true when an attempt whose answer was lost did it. Waits up to half a minute for an answer.

        Raises ``InDoubt`` when none came, ``TransactionOver`` when it can no longer be committed.
        """
        self._client.commit(pointer)

    def abort(self, pointer: int) -> None:
        """What was stored is never seen. Raises ``TransactionOver`` when it has ended already, else as ``plan``."""
        self._client.finish_transaction(pointer, "abort")
