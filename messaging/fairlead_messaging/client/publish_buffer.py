"""Messages waiting to be sent: buffered, numbered, sent in order, dropped and counted when there is no room.

    offer ─→ waiting ─batch→ one request ─┬─stored→ published      the same batch is sent again until one of these
                                          └─refused→ dropped       is known, so a lost answer stores nothing twice

It has no clock and no socket: ``io.buffered_publisher`` sends what ``batch`` returns.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from fairlead_messaging.api.requests import Producer
from fairlead_messaging.api.responses import Placed
from fairlead_messaging.client import requests
from fairlead_messaging.client.payloads import check_payload
from fairlead_messaging.client.request import ClientRequest
from fairlead_wire.errors import Temporary

WAITING_MESSAGES_MAX = 10_000
WAITING_BYTES_MAX = 16 * 1024 * 1024
BATCH_MESSAGES_MAX = 1000
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""Of payloads.  In JSON they are a third larger, still far below the 16 MiB that the service accepts in one request."""
RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 10.0
"""The wait before a failed batch is sent again, and the limit up to which it doubles each time."""


class PublishBuffer:
    """The buffer of one topic and one run of a producer: no other run may use its ``producer_id`` and ``epoch``."""

    def __init__(
        self,
        namespace: str,
        name: str,
        *,
        producer_id: str,
        epoch: int,
        waiting_messages_max: int = WAITING_MESSAGES_MAX,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
    ) -> None:
        self._topic = (namespace, name)
        self._producer_id = producer_id
        self._epoch = epoch
        self._messages_max = waiting_messages_max
        self._bytes_max = waiting_bytes_max
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._sending = 0
        self._next = 0
        self._pause = RETRY_SECONDS
        self.accepted = 0
        self.published = 0
        self.dropped = 0

    @property
    def waiting(self) -> int:
        """Messages accepted and not yet published or dropped."""
        return len(self._waiting)

    @property
    def settled(self) -> int:
        """How many of the accepted messages are published or dropped, which happens in the order of acceptance."""
        return self.accepted - len(self._waiting)

    def offer(self, payload: bytes) -> bool:
        """Accept a message; False if there is no room for it.  Raises ``TypeError`` unless it is bytes."""
        check_payload(payload)
        if len(self._waiting) >= self._messages_max or self._bytes + len(payload) > self._bytes_max:
            self.dropped += 1
            return False
        self._waiting.append(payload)
        self._bytes += len(payload)
        self.accepted += 1
        return True

    def batch(self) -> ClientRequest[Placed] | None:
        """A request with the oldest messages: the same one each time until that batch is stored or refused."""
        if not self._waiting:
            return None
        if not self._sending:
            self._sending = self._fit()
        producer = Producer(id=self._producer_id, epoch=self._epoch, sequence=self._next)
        return requests.publish(*self._topic, list(islice(self._waiting, self._sending)), producer=producer)

    def stored(self) -> None:
        """Record that the batch is stored."""
        self.published += self._sending
        self._forget(self._sending)

    def failed(self, failed: Temporary) -> float:
        """Record that the batch failed; returns the seconds to wait before sending it again."""
        pause = max(self._pause, failed.retry_after_seconds or 0.0)
        self._pause = min(2 * self._pause, RETRY_SECONDS_MAX)
        return pause

    def refused(self) -> int:
        """Record that the batch will never be stored; returns how many messages it had."""
        return self._drop(self._sending)

    def give_up(self) -> int:
        """Drop all buffered messages; returns how many there were."""
        return self._drop(len(self._waiting))

    def _fit(self) -> int:
        """How many of the oldest messages fit into one batch; at least one, however large."""
        size = 0
        for count, payload in enumerate(islice(self._waiting, BATCH_MESSAGES_MAX)):
            size += len(payload)
            if size > BATCH_BYTES_MAX and count:
                return count
        return min(len(self._waiting), BATCH_MESSAGES_MAX)

    def _drop(self, count: int) -> int:
        self.dropped += count
        self._forget(count)
        return count

    def _forget(self, count: int) -> None:
        for _ in range(count):
            self._bytes -= len(self._waiting.popleft())
        self._next += count
        self._sending = 0
        self._pause = RETRY_SECONDS
