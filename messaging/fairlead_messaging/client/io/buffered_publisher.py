"""Publishing without waiting: messages are buffered, and sent in batches in the background.

    with BufferedPublisher(client, "default", "visits", on_drop=log) as visits:
        visits.publish(b"…")

``AsyncBufferedPublisher`` is the same for an ``AsyncClient``, with ``async with``.  Delivery is best effort: a message
for which the buffer has no room, or which the service refuses, is dropped and counted.  A batch that is repeated after
a lost answer is not stored twice, because the publisher numbers its messages.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypedDict, Unpack

from fairlead_messaging.client.methods import AwaitingClient, BlockingClient
from fairlead_messaging.client.publish_buffer import WAITING_BYTES_MAX, WAITING_MESSAGES_MAX, PublishBuffer
from fairlead_wire.errors import FairleadError, LocalError, Temporary
from fairlead_wire.io import logs

CLOSE_SECONDS = 2.0
EPOCH_BITS = 53
"""The greatest integer that every JSON implementation keeps exact."""

OnDrop = Callable[[int, FairleadError], None]

_log = logs.get("messaging.publisher")


class PublisherOptions(TypedDict, total=False):
    """Options of a publisher.

    ``producer_id`` with ``epoch`` identifies one run of the publisher and must never be used by another; by default
    both are random.

    ``on_drop(count, error)`` is called for messages that the service refused or that were given up, but not when the
    buffer is full, which ``publish`` reports itself.  It must not block.  Without it a warning is logged.
    """

    producer_id: str
    epoch: int
    waiting_messages_max: int
    waiting_bytes_max: int
    close_seconds: float
    on_drop: OnDrop


class Publisher:
    """One topic."""

    def __init__(self, namespace: str, name: str, **options: Unpack[PublisherOptions]) -> None:
        self._buffer = PublishBuffer(
            namespace,
            name,
            producer_id=options.get("producer_id") or f"buffered/{uuid.uuid4()}",
            epoch=options["epoch"] if "epoch" in options else secrets.randbits(EPOCH_BITS),
            waiting_messages_max=options.get("waiting_messages_max", WAITING_MESSAGES_MAX),
            waiting_bytes_max=options.get("waiting_bytes_max", WAITING_BYTES_MAX),
        )
        self._close_seconds = options.get("close_seconds", CLOSE_SECONDS)
        self._on_drop = options.get("on_drop")

    @property
    def published(self) -> int:
        """How many messages the service has stored."""
        return self._buffer.published

    @property
    def dropped(self) -> int:
        """How many messages found the buffer full, were refused, or were given up at the end.

        The last batch may count as given up although the service stored it.
        """
        return self._buffer.dropped

    @property
    def waiting(self) -> int:
        """How many messages are in the buffer."""
        return self._buffer.waiting

    def _report(self, count: int, error: FairleadError) -> None:
        if not count:
            return
        if self._on_drop is None:
            _log.warning("messages_dropped", count=count, reason=str(error))
            return
        try:
            self._on_drop(count, error)
        except Exception:  # noqa: BLE001 - a failing callback must not stop the publisher
            _log.exception("on_drop_failed")


class BufferedPublisher(Publisher):
    """Sends in a thread, which starts at once.  Options: ``PublisherOptions``.

    Any number of threads may publish; ``on_drop`` is called in the sending thread.  A forked child must make its own
    publisher: threads do not survive a fork, and messages of two processes that use the same producer would be taken
    for repeats of each other.  A publisher that is still open when the program exits is closed then.
    """

    def __init__(self, client: BlockingClient, namespace: str, name: str, **options: Unpack[PublisherOptions]) -> None:
        super().__init__(namespace, name, **options)
        self._client = client
        self._changed = threading.Condition()
        self._closed = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name=f"publish {namespace}/{name}", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def publish(self, payload: bytes) -> bool:
        """Buffer a message; False if the buffer is full and the message was dropped.

        Raises ``LocalError`` once the publisher is closed.
        """
        self._check_process()
        with self._changed:
            if self._closed:
                raise LocalError("this publisher is closed")
            self._changed.notify_all()
            return self._buffer.offer(payload)

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until all messages accepted so far are published or dropped; False if the timeout passes first."""
        self._check_process()
        with self._changed:
            accepted = self._buffer.accepted
            return self._changed.wait_for(lambda: self._buffer.settled >= accepted, timeout_seconds)

    def close(self, timeout_seconds: float | None = None) -> None:
        """Send buffered messages for at most ``timeout_seconds`` (default: ``close_seconds``), then drop the rest."""
        atexit.unregister(self.close)
        if self._process != os.getpid():
            return
        try:
            self.flush(self._close_seconds if timeout_seconds is None else timeout_seconds)
        finally:
            with self._changed:
                self._closed = True
                dropped = self._buffer.give_up()
                self._changed.notify_all()
            self._report(dropped, Temporary("the publisher was closed"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise LocalError("this publisher was made before a fork; make one in this process")

    def _run(self) -> None:
        """The sending thread.  It releases the lock while it waits for the network, so ``publish`` never blocks."""
        while True:
            with self._changed:
                while (asked := self._buffer.batch()) is None:
                    if self._closed:
                        return
                    self._changed.wait()
            try:
                self._client.do(asked)
            except Temporary as failed:
                self._wait(failed)
                continue
            except FairleadError as refused:
                with self._changed:
                    dropped = self._buffer.refused()
                self._report(dropped, refused)
            else:
                with self._changed:
                    self._buffer.stored()
            with self._changed:
                self._changed.notify_all()

    def _wait(self, failed: Temporary) -> None:
        with self._changed:
            end = time.monotonic() + self._buffer.failed(failed)
            while not self._closed and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)


class AsyncBufferedPublisher(Publisher):
    """Sends in a task of one event loop, from ``async with`` on.  Options: ``PublisherOptions``."""

    def __init__(self, client: AwaitingClient, namespace: str, name: str, **options: Unpack[PublisherOptions]) -> None:
        super().__init__(namespace, name, **options)
        self._client = client
        self._something = asyncio.Event()
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def publish(self, payload: bytes) -> bool:
        """Buffer a message; False if the buffer is full and the message was dropped.

        Raises ``LocalError`` once the publisher is closed.
        """
        if self._closed:
            raise LocalError("this publisher is closed")
        self._something.set()
        return self._buffer.offer(payload)

    async def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until all messages accepted so far are published or dropped; False if the timeout passes first."""
        accepted = self._buffer.accepted
        try:
            async with asyncio.timeout(timeout_seconds):
                while self._buffer.settled < accepted:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            return False
        return True

    async def close(self, timeout_seconds: float | None = None) -> None:
        """Send buffered messages for at most ``timeout_seconds`` (default: ``close_seconds``), then drop the rest."""
        self._closed = True
        try:
            await self.flush(self._close_seconds if timeout_seconds is None else timeout_seconds)
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
                self._task = None
            self._report(self._buffer.give_up(), Temporary("the publisher was closed"))

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self) -> None:
        while True:
            asked = self._buffer.batch()
            if asked is None:
                self._something.clear()
                await self._something.wait()
                continue
            try:
                await self._client.do(asked)
            except Temporary as failed:
                await asyncio.sleep(self._buffer.failed(failed))
                continue
            except FairleadError as refused:
                self._report(self._buffer.refused(), refused)
            else:
                self._buffer.stored()
            self._settled.set()
