"""Checksums of messages: a message is read with what its run says of it, and both must be what was accepted.

run        CRC-32 of what the references of one request to one queue share, and of the queue's own name
expiry     CRC-32 of its run's checksum and of when it expires, where that may change: its object's time to live counts
reference  CRC-32 of its run's checksum, its offset, and its body
"""

from __future__ import annotations

import zlib

from fairlead_edge.checksum import of_row
from fairlead_edge.outbox.queue_id import QueueId


def of_run(
    queue: QueueId,
    *,
    first: int,
    last: int,
    epoch: int,
    enqueued: float,
    expires: float | None,
    topic: str,
    inherits: str | None = None,
) -> int:
    """Of what never changes in a run; times are seconds of the store's clock.

    When a run expires that ``inherits`` its time to live is no part of it (``of_expiry``).
    """
    until = None if expires is None else float(expires)
    named = (queue.endpoint, queue.priority, first, last, epoch, float(enqueued))
    return of_row(*named, until, topic) if inherits is None else of_row(*named, topic, "inherits", inherits)


def of_expiry(run: int, expires: float | None) -> int:
    """Of what may change in a run whose checksum is ``run``."""
    return of_row(run, None if expires is None else float(expires))


def of_reference(run: int, offset: int, body: bytes) -> int:
    """``run`` is the checksum of the reference's run."""
    return zlib.crc32(body, zlib.crc32(b"%d %d" % (run, offset)))
