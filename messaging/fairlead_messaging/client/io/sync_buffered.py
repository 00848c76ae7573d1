"""Publishing without waiting, for programs without an event loop: a thread sends what gathered.

    with BufferedPublisher(client, "default", "visits", on_drop=log) as visits:
        visits.publish(b"…")

It promises what ``async_buffered`` does.  Any number of threads may publish; ``on_drop`` is called in the sending
thread.  A forked child must make its own: the thread does not come along, and two processes numbering as one producer
would hide each other's messages.  A program that ends without closing it closes it at exit.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from types import TracebackType
from typing import Self, Unpack

from fairlead_messaging.client.io.publisher import Publisher, PublisherOptions
from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire.errors import FairleadError, LocalError, Temporary


class BufferedPublisher(Publisher):
    """More arguments: ``PublisherOptions``.  Sends from the moment it is made."""

    def __init__(self, client: Client, namespace: str, name: str, **options: Unpack[PublisherOptions]) -> None:
        super().__init__(namespace, name, **options)
        self._client = client
        self._changed = threading.Condition()
        self._closed = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name=f"publish {namespace}/{name}", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def publish(self, payload: bytes) -> bool:
        """False when it was dropped because too much is waiting.  Raises ``LocalError`` once it is closed."""
        self._check_process()
        with self._changed:
            if self._closed:
                raise LocalError("this publisher is closed")
            self._changed.notify_all()
            return self._buffer.offer(payload)

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until all that was accepted before is published or dropped; False when the time was over first."""
        self._check_process()
        with self._changed:
            accepted = self._buffer.accepted
            return self._changed.wait_for(lambda: self._buffer.settled >= accepted, timeout_seconds)

    def close(self, timeout_seconds: float | None = None) -> None:
        """Send what waits for at most ``timeout_seconds`` (absent: ``close_seconds``); the rest is dropped, counted."""
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
        """The sending thread.  The network is waited for without the lock, so that ``publish`` never waits."""
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
                    self._buffer.taken()
            with self._changed:
                self._changed.notify_all()

    def _wait(self, failed: Temporary) -> None:
        with self._changed:
            end = time.monotonic() + self._buffer.failed(failed)
            while not self._closed and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
