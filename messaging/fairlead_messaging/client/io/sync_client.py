"""Clients of the messaging service without an event loop: the calls of ``async_client``, answered before they return.

    with SyncMessagingClient("http://127.0.0.1:11015") as client:
        client.publish("default", "orders", [b"1"])
        for message in client.messages("default", "orders"): …

    BulkClient: for batch engines.  plan(after, upto, limits) ─→ ranges ─→ poll(range) ─→ ArrowPage(table, …) ─→ …

Errors, retries and what is safe to repeat are those of ``async_client``.  Any number of threads may share a
``SyncMessagingClient``; each call has a connection to itself.  It may be carried over a fork (the child makes its own
connections) and pickled (only its settings travel), as Spark does with what a closure names; a ``BulkClient`` must be
made where it is used.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from fairlead_messaging.api import headers, routes
from fairlead_messaging.api.requests import ArrowPollRequest, Producer
from fairlead_messaging.api.responses import Message, Offset, Plan, Published, Range, Started
from fairlead_messaging.client import request, signatures, transaction_coordinator
from fairlead_messaging.client.cursor import Cursor
from fairlead_messaging.client.errors import Expired, Failed, GenerationChanged, TopicMissing
from fairlead_messaging.client.io.connections import ANSWER_BYTES_MAX, ANSWER_SECONDS, CONNECT_SECONDS, Connections, Tls
from fairlead_messaging.client.request import Request, Response
from fairlead_messaging.client.retry import Attempts
from fairlead_wire.delivery import DeliveryPolicy
from fairlead_wire.errors import FairleadError, RemoteError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ArrowPage", "BulkClient", "Expired", "GenerationChanged", "Message", "Offset", "Page", "Plan", "Producer",
    "Published", "Range", "Started", "SyncMessagingClient", "Tls", "TopicMissing",
]  # fmt: skip

T = TypeVar("T")
P = ParamSpec("P")


def _asking(build: Callable[P, Request[T]]) -> Callable[Concatenate[SyncMessagingClient, P], T]:
    """The method that makes this call and sends it."""

    def method(self: SyncMessagingClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.do(build(*args, **kwargs))

    return signatures.as_method(method, build)


class SyncMessagingClient:
    """Arguments as for ``MessagingClient``; TLS by files only, which are read again when they change."""

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

    create_topic = _asking(request.create_topic)
    topic = _asking(request.topic)
    namespaces = _asking(request.namespaces)
    topics = _asking(request.topics)
    update_topic = _asking(request.update_topic)
    delete_topic = _asking(request.delete_topic)

    publish = _asking(request.publish)
    poll = _asking(request.poll)
    inspect = _asking(request.inspect)

    plan = _asking(request.plan)
    offsets = _asking(request.offsets)
    note_reader = _asking(request.note_reader)
    readers = _asking(request.readers)

    start_transaction = _asking(request.start_transaction)
    finish_transaction = _asking(request.finish_transaction)
    transactions = _asking(request.transactions)
    publish_in = _asking(request.publish_in)
    store_in = _asking(request.store_in)
    roll_back = _asking(request.roll_back)

    put_subscription = _asking(request.put_subscription)
    subscription = _asking(request.subscription)
    subscriptions = _asking(request.subscriptions)
    delete_subscription = _asking(request.delete_subscription)

    def messages(
        self,
        namespace: str,
        name: str,
        *,
        start_from: str | int | None = None,
        inclusive: bool = True,
        follow: bool = False,
        read_committed: bool = True,
    ) -> Iterator[Message]:
        """Every message from a start on, page by page; with ``follow`` also those that come later, without end.

        To go on another day start from the last message's id with ``inclusive=False``.
        """
        cursor = Cursor(
            namespace, name, start_from=start_from, inclusive=inclusive, follow=follow, read_committed=read_committed
        )
        while cursor.more:
            yield from cursor.take(self.do(cursor.ask()))

    def do(self, call: Request[T]) -> T:
        """Send any call of ``client.request``, as often as it needs and ``retries`` allow."""
        attempts = Attempts(call, self._retries, random.random)
        while True:
            try:
                return attempts.read(
                    self._connections.exchange(
                        call.method,
                        call.path,
                        call.body,
                        call.headers,
                        answer_seconds=self._timeout_seconds + call.wait_seconds,
                    )
                )
            except Failed as failed:
                time.sleep(attempts.after(failed))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowPage:
    """One answer to a bulk poll: rows ``id`` (binary), ``ts`` (timestamp[us, UTC]), ``payload`` (binary)."""

    table: pa.Table
    next_position: str
    generation: int
    stable: str
    oldest: str
    service: str
    hidden: int = 0
    """Messages of rolled-back transactions that were passed over."""


Page = ArrowPage
"""The bulk readers' word for it."""


class BulkClient:
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
        self._client = SyncMessagingClient(
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

    def plan(
        self,
        topic: str,
        *,
        after: str,
        upto: str | None = None,
        limit_rows: int | None = None,
        limit_bytes: int | None = None,
        splits: int = 1,
        wait_ms: int = 0,
        generation: int | None = None,
    ) -> Plan:
        """Ask how to read ``topic`` beyond ``after``; waits up to ``wait_ms`` while nothing is there.

        Raises ``Expired``, ``GenerationChanged``, ``TopicMissing``, ``Temporary``, ``Permanent``.
        """
        return self._client.plan(
            *request.split(topic),
            after=after,
            upto=upto,
            limit_rows=limit_rows,
            limit_bytes=limit_bytes,
            splits=splits,
            wait_ms=wait_ms,
            generation=generation,
        )

    def poll(
        self,
        topic: str,
        *,
        after: str,
        upto: str | None = None,
        limit_rows: int | None = None,
        limit_bytes: int | None = None,
        generation: int | None = None,
    ) -> ArrowPage:
        """One page of rows beyond ``after`` up to ``upto``, never past the stable position. Raises as ``plan``."""
        body = ArrowPollRequest(
            after=after, upto=upto, limit_rows=limit_rows, limit_bytes=limit_bytes, generation=generation
        )
        page = partial(_arrow_page, topic, after)
        call = request.to(routes.ARROW_POLL, *request.split(topic), body=body, decode=page, accept=headers.ARROW)
        return self._client.do(call)

    def offsets(self, topic: str, at: str | int) -> Offset:
        """Where ``at`` (``earliest``, ``latest`` or milliseconds since 1970) lies in ``topic``. Raises as ``plan``."""
        return self._client.offsets(*request.split(topic), at)

    def note_reader(self, topic: str, reader: str, *, position: str, generation: int) -> None:
        """Tell the service how far ``reader`` has durably read, for lag and receipts. Raises as ``plan``."""
        self._client.note_reader(*request.split(topic), reader, position=position, generation=generation)

    # --- writing

    def start_transaction(self, timeout_seconds: float) -> int:
        """The pointer of a new transaction. Raises as ``plan``."""
        return self._client.start_transaction(timeout_seconds).transactionWritePointer

    def store_in(self, pointer: int, topic: str, payloads: Sequence[bytes]) -> None:
        """Store under a transaction; never sent twice, because it would be stored twice. Raises as ``plan``."""
        self._client.store_in(pointer, *request.split(topic), payloads)

    def publish_stored(self, pointer: int, topic: str) -> None:
        """Publish what was stored under a transaction. Raises as ``plan``."""
        self._client.publish_in(pointer, *request.split(topic), ())

    def commit(self, pointer: int) -> None:
        """Commit; also true when an attempt whose answer was lost did it. Waits up to half a minute for an answer.

        Raises ``InDoubt`` when none came, ``TransactionOver`` when it can no longer be committed.
        """
        script = transaction_coordinator.commit(pointer)
        error: FairleadError | None = None
        with contextlib.suppress(StopIteration):
            while True:
                step = next(script) if error is None else script.throw(error)
                error = None
                if isinstance(step, transaction_coordinator.Pause):
                    time.sleep(step.seconds)
                    continue
                try:
                    self._client.do(step)
                except FairleadError as met:
                    error = met

    def abort(self, pointer: int) -> None:
        """What was stored is never seen. Raises ``TransactionOver`` when it has ended already, else as ``plan``."""
        self._client.finish_transaction(pointer, "abort")


def _arrow_page(topic: str, after: str, answer: Response) -> ArrowPage:
    import pyarrow as pa  # heavy, and only bulk readers need it

    try:
        with pa.ipc.open_stream(pa.py_buffer(answer.body)) as stream:
            table = stream.read_all()
        return ArrowPage(
            table=table,
            next_position=answer.header(headers.NEXT_POSITION) or after,
            generation=int(answer.header(headers.GENERATION) or 0),
            stable=answer.header(headers.STABLE_POSITION) or "",
            oldest=answer.header(headers.OLDEST_POSITION) or "",
            service=answer.header(headers.SERVICE) or "",
            hidden=int(answer.header(headers.HIDDEN_MESSAGES) or 0),
        )
    except (pa.ArrowException, ValueError) as error:
        raise RemoteError(f"the service answered a poll of {topic} with no Arrow stream: {error}") from error
