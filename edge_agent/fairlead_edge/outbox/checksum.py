"""Checksums of messages: a message is read with what its run says of it, and both must be what was accepted.

run        CRC-32 of what the references of one request to one queue share, and of the queue's own name
reference  CRC-32 of its run's checksum, its offset, and its body
"""

from __future__ import annotations

import zlib

from fairlead_edge.checksum import of_row
from fairlead_edge.outbox.queue_id import QueueId


def of_run(
    queue: QueueId, *, first: int, last: int, epoch: int, enqueued: float, expires: float | None, topic: str
) -> int:
    """Of what never changes in a run; times are seconds of the store's clock."""
    until = None if expires is None else float(expires)
    return of_row(queue.endpoint, queue.priority, first, last, epoch, float(enqueued), until, topic)


def of_reference(run: int, offset: int, body: bytes) -> int:
    """``run`` is the checksum of the reference's run."""
    return zlib.crc32(body, zlib.crc32(b"%d %d" % (run, offset)))
