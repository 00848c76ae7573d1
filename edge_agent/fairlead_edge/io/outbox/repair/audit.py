"""Checks whether the outbox's file is what was written to it: its structure, its types, and its totals.

Bodies and envelopes have their own checksums and are not read here (``damage.find``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.store_state import load_stamp
from fairlead_edge.io.sqlite import statements as sqlite
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.totals import OutboxTotals, QueueTotals
from fairlead_wire import errors

_CLOCK: Final = "the clock is not readable"
_SMALL: Final = {
    "a queue is not readable": sql.QUEUE_UNREADABLE,
    "a queue's totals are impossible": sql.QUEUE_IMPOSSIBLE,
    "the number of used bytes is not readable": sql.USAGE_UNKNOWN,
    _CLOCK: sql.CLOCK_UNREADABLE,
    "its owner is not readable": sql.OWNER_UNREADABLE,
}
"""Checks of the small tables; only if these find nothing can their rows be read as ``OutboxTotals``."""
_LARGE: Final = {
    "the number of messages in a queue differs from its count": sql.QUEUE_MISCOUNTED,
    "a queue has messages above its last offset": sql.OFFSET_ABOVE_LAST,
    "messages belong to no queue": sql.REFERENCE_WITHOUT_QUEUE,
    "an envelope counts messages that do not exist": sql.RUN_MISCOUNTED,
    "more bytes are counted as used than the file can hold": sql.USAGE_TOO_LARGE,
}


def audit(connection: apsw.Connection) -> str:
    """What is wrong, in a few words, or "".  Reads the whole file once."""
    [(found,)] = rows(connection, sqlite.INTEGRITY_CHECK)
    if found != "ok":
        return str(found)
    return audit_small_tables(connection) or _check(connection, _LARGE)


def audit_beside(path: Path, access: FileAccess = PLAIN) -> str:
    """``audit`` on a separate connection, while the file is in use."""
    try:
        connection = access.connect(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(5_000)
            connection.execute(sqlite.BEGIN)  # one snapshot, whatever is written meanwhile
            return audit(connection)
        finally:
            connection.close()
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        return errors.text_of(error)


def audit_small_tables(connection: apsw.Connection) -> str:
    """``audit`` of the small tables alone, which is quick."""
    return _check(connection, _SMALL)


def read_clock(connection: apsw.Connection) -> Stamp | None:
    """The stamp of the store's clock; None if there is none, or it is not plausible."""
    return None if _check(connection, {_CLOCK: _SMALL[_CLOCK]}) else load_stamp(connection)


def _check(connection: apsw.Connection, checks: dict[str, str]) -> str:
    return next((problem for problem, statement in checks.items() if rows(connection, statement)), "")


def read_totals(connection: apsw.Connection) -> OutboxTotals:
    """The totals in the file, if ``audit_small_tables`` found nothing; all but ``topic``, which is kept beside it."""
    [(commits,)] = rows(connection, sql.COMMITS)
    return OutboxTotals(
        commits,
        tuple(
            QueueTotals(
                id=id,
                endpoint=endpoint,
                priority=priority,
                next_offset=next_offset,
                checkpoint=checkpoint,
                accepted=accepted,
                sent=sent,
                expired=expired,
                evicted=evicted,
                damaged=damaged,
            )
            for id, endpoint, priority, next_offset, checkpoint, accepted, sent, expired, evicted, damaged in rows(
                connection, sql.QUEUE_TOTALS
            )
        ),
        load_stamp(connection),
        "".join(node for (node,) in rows(connection, sql.OWNER)),
    )


def compare(found: OutboxTotals, kept: OutboxTotals | None) -> str:
    """How the file contradicts the totals kept beside it; "" if it does not, or if they are older (a power cut)."""
    if kept is None or found.commits > kept.commits:
        return ""
    if found.commits < kept.commits:
        return f"it lacks the last {kept.commits - found.commits} commits"
    if found.clock != kept.clock:
        return "its clock was changed"
    if found.node != kept.node:
        return "its owner was changed"
    expected = [_counts(queue) for queue in kept.queues]
    return "" if [_counts(queue) for queue in found.queues] == expected else "its totals were changed"


def _counts(queue: QueueTotals) -> tuple[object, ...]:
    return tuple(getattr(queue, name) for name in QueueTotals.__struct_fields__ if name != "topic")
