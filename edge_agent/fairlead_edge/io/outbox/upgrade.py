"""Checksums for what an older program stored without any: from then on damage is noticed, whoever accepted it.

What cannot be read at this moment gets none, and counts as damaged when its turn comes.
"""

from __future__ import annotations

from typing import Any

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox import queries
from fairlead_edge.io.outbox.queries import rows
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.checksum import of_reference
from fairlead_edge.outbox.queue_id import QueueId


def add_checksums(connection: apsw.Connection) -> None:
    """Once, in the transaction that brings the file to a present version."""
    for number, endpoint, priority in rows(connection, "SELECT id, endpoint, priority FROM queues"):
        _of_queue(connection, number, QueueId(endpoint, priority))
    for number, *fields, content in rows(
        connection, "SELECT number, queue, offset, epoch, ttl, topic, at, code, reason, content FROM dead_letters"
    ):
        made = queries.sealed_letter(fields, content)
        connection.execute("UPDATE dead_letters SET checksum = ? WHERE number = ?", (made, number))
    for receipt in rows(connection, "SELECT key, digest, answer, at FROM receipts"):
        connection.execute("UPDATE receipts SET checksum = ? WHERE key = ?", (of_row(*receipt), receipt[0]))


def _of_queue(connection: apsw.Connection, number: int, queue: QueueId) -> None:
    read = queries.Bodies(connection)
    runs: dict[int, int] = {}
    for segment, *envelope_ in rows(
        connection, "SELECT segment, first, last, epoch, enqueued, expires, topic FROM runs WHERE queue = ?", (number,)
    ):
        made = queries.sealed(queue, *envelope_)
        if made is not None:
            runs[segment] = made
            connection.execute("UPDATE runs SET checksum = ? WHERE segment = ? AND queue = ?", (made, segment, number))
    for offset, segment, start, size in rows(
        connection, "SELECT offset, segment, start, size FROM references_ WHERE queue = ? ORDER BY offset", (number,)
    ):
        body = _sound(read, segment, start, size)
        if body is not None and segment in runs:
            connection.execute(
                "UPDATE references_ SET checksum = ? WHERE queue = ? AND offset = ?",
                (of_reference(runs[segment], offset, body), number, offset),
            )


def _sound(read: queries.Bodies, segment: Any, start: Any, size: Any) -> bytes | None:
    """The body, when it still is a message."""
    try:
        body = read.body(segment, start, size)
        envelope.read(body)
    except (queries.Unreadable, ValueError, RecursionError):
        return None
    return body
