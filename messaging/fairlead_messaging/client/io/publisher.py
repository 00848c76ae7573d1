"""What both buffered publishers share: messages on their way out, counts, and a callback for drops."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from typing import TypedDict, Unpack

from fairlead_messaging.client.publish_buffer import WAITING_BYTES_MAX, WAITING_MESSAGES_MAX, PublishBuffer
from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs

CLOSE_SECONDS = 2.0
EPOCH_BITS = 53
"""An epoch is a number that JSON keeps exact everywhere."""

OnDrop = Callable[[int, FairleadError], None]

_log = logs.get("messaging.publisher")


class PublisherOptions(TypedDict, total=False):
    """How a publisher is made.  ``producer_id`` with ``epoch`` names this run of it and must never be used by another.

    Absent, they are made up.  ``on_drop(count, error)`` hears what the service refused and what was given up; not what
    found no room, which ``publish`` says itself.  It must not wait.
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
        """Stored with the service, durably."""
        return self._buffer.published

    @property
    def dropped(self) -> int:
        """For want of room, refused, or given up at the end (of these the last batch may have been stored)."""
        return self._buffer.dropped

    @property
    def waiting(self) -> int:
        """Accepted, neither published nor dropped."""
        return self._buffer.waiting

    def _report(self, count: int, error: FairleadError) -> None:
        if not count:
            return
        _log.warning("messages_dropped", count=count, reason=str(error))
        if self._on_drop is not None:
            try:
                self._on_drop(count, error)
            except Exception:  # noqa: BLE001 - the caller's own function must not end the sending
                _log.exception("on_drop_failed")
