"""Is the outbox's file what was written to it?  Its structure, its types, and its totals against those kept beside it.

Bodies and envelopes have checksums of their own and are not read here (``damage.find``).
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
    "a queue's totals cannot be": sql.QUEUE_IMPOSSIBLE,
    "the room taken is not known": sql.USAGE_UNKNOWN,
    _CLOCK: sql.CLOCK_UNREADABLE,
    "its owner is not readable": sql.OWNER_UNREADABLE,
}
"""Of the tables of a few rows; only when these find nothing, their rows can be read as ``OutboxTotals``."""
_LARGE: Final = {
    "a queue's messages are not as many as were counted": sql.QUEUE_MISCOUNTED,
    "a queue has messages above its last": sql.OFFSET_ABOVE_LAST,
    "messages belong to no queue": sql.REFERENCE_WITHOUT_QUEUE,
    "an envelope counts what is not there": sql.RUN_MISCOUNTED,
    "more room is said to be taken than there is in it": sql.USAGE_TOO_LARGE,
}


def audit(connection: apsw.Connection) -> str:
    """What is wrong, in a few words; "" when nothing is.  Reads the whole file once."""
    [(found,)] = rows(connection, sqlite.INTEGRITY_CHECK)
    if found != "ok":
        return str(found)
    return glance(connection) or _check(connection, _LARGE)


def audit_beside(path: Path, access: FileAccess = PLAIN) -> str:
    """``audit`` on a connection of its own, while the file is in use."""
    try:
        connection = access.connect(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(5_000)
            connection.execute(sqlite.BEGIN)  # one moment, whatever is written meanwhile
            return audit(connection)
        finally:
            connection.close()
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        return errors.text_of(error)


def glance(connection: apsw.Connection) -> str:
    """The same of the small tables alone, which is quick."""
    return _check(connection, _SMALL)


def read_clock(connection: apsw.Connection) -> Stamp | None:
    """None when there is none that can be believed."""
    return None if _check(connection, {_CLOCK: _SMALL[_CLOCK]}) else load_stamp(connection)


def _check(connection: apsw.Connection, checks: dict[str, str]) -> str:
    return next((problem for problem, statement in checks.items() if rows(connection, statement)), "")


def read_totals(connection: apsw.Connection) -> OutboxTotals:
    """As the file has them, when a ``glance`` finds nothing; all but ``topic``, which is only kept beside it."""
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
    """What the totals beside the file say against it; "" also when they are older, as after a power cut."""
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
