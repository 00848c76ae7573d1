"""Checksums for what an older program stored without any: from then on damage is noticed in that, too.

What cannot be read at this moment gets none, and counts as damaged when its turn comes.
"""

from __future__ import annotations

from typing import Any

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import dead_letters
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.bodies import Bodies, Unreadable, run_checksum
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.checksum import of_reference
from fairlead_edge.outbox.queue_id import QueueId


def add_checksums(connection: apsw.Connection) -> None:
    """Once, in the transaction that brings the file to a present version."""
    for number, endpoint, priority in rows(connection, sql.NUMBERED_QUEUES):
        _of_queue(connection, number, QueueId(endpoint, priority))
    for number, *fields, content in rows(connection, sql.LETTERS_TO_SEAL):
        connection.execute(sql.SEAL_LETTER, (dead_letters.checksum(fields, content), number))
    for key in rows(connection, sql.KEYS_TO_SEAL):
        connection.execute(sql.SEAL_KEY, (of_row(*key), key[0]))


def _of_queue(connection: apsw.Connection, number: int, queue: QueueId) -> None:
    read = Bodies(connection)
    runs: dict[int, int] = {}
    for segment, *envelope_ in rows(connection, sql.RUNS_TO_SEAL, (number,)):
        made = run_checksum(queue, *envelope_)
        if made is not None:
            runs[segment] = made
            connection.execute(sql.SEAL_RUN, (made, segment, number))
    for offset, segment, start, size in rows(connection, sql.REFERENCES_TO_SEAL, (number,)):
        body = _sound(read, segment, start, size)
        if body is not None and segment in runs:
            sealed = of_reference(runs[segment], offset, body)
            connection.execute(sql.SEAL_REFERENCE, (sealed, number, offset))


def _sound(read: Bodies, segment: Any, start: Any, size: Any) -> bytes | None:
    """The body, when it still is a message."""
    try:
        body = read.body(segment, start, size)
        envelope.read(body)
    except (Unreadable, ValueError, RecursionError):
        return None
    return body
