"""Is the outbox's file what was written to it?  Its structure, its types, and its totals against those kept beside it.

Bodies and envelopes have checksums of their own and are not read here (``damage.find``).
"""

from __future__ import annotations

from typing import Final

import apsw

from fairlead_edge.io.outbox.queries import load_stamp, rows
from fairlead_edge.outbox import age, outbox
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.checkpoint import NOTHING_DONE
from fairlead_edge.outbox.totals import COUNT_MAX, PLACE_MAX, QueueTotals, Totals

ROOM_TOLERANCE: Final = 1 << 20
"""Bytes that the room taken may be miscounted by; twice what is there, and so much more, is no miscount."""

_NUMBERS: Final = (
    *("id", "priority", "next_offset", "checkpoint", "stored", "bytes"),
    *("accepted", "sent", "expired", "evicted", "damaged"),
)
_COUNTS: Final = ("accepted", "sent", "expired", "evicted", "damaged", "stored", "bytes", "next_offset")
_CLOCK: Final = "the clock is not readable"
_SMALL: Final = {
    "a queue is not readable": "SELECT 1 FROM queues WHERE typeof(endpoint) != 'text'"
    + "".join(f" OR typeof({name}) != 'integer'" for name in _NUMBERS),
    "a queue's totals cannot be": f"SELECT 1 FROM queues WHERE priority NOT BETWEEN 0 AND {PLACE_MAX}"
    f" OR checkpoint NOT BETWEEN {NOTHING_DONE} AND next_offset - 1"
    + "".join(f" OR {name} NOT BETWEEN 0 AND {COUNT_MAX}" for name in _COUNTS),
    "the room taken is not known": "SELECT 1 FROM (SELECT count(*) AS n, total(typeof(bytes) = 'integer'"
    f" AND bytes BETWEEN 0 AND {COUNT_MAX} AND typeof(commits) = 'integer' AND commits BETWEEN 0 AND {COUNT_MAX})"
    " AS good FROM usage) WHERE n != 1 OR good != 1",
    _CLOCK: "SELECT 1 FROM clock WHERE typeof(boot_id) != 'text'"
    + "".join(
        f" OR typeof({name}) != 'real' OR {name} NOT BETWEEN 0 AND {age.SECONDS_MAX}"
        for name in ("boot_seconds", "wall_seconds", "age_seconds")
    ),
    "its owner is not readable": "SELECT 1 FROM owner WHERE id != 1 OR typeof(node) != 'text'",
}
"""Of the tables of a few rows; only when these are answered, their rows can be told as ``Totals``."""
_LARGE: Final = {
    "a queue's messages are not as many as were counted": "SELECT 1 FROM queues q WHERE stored !="
    " (SELECT count(*) FROM references_ WHERE queue = q.id)"
    " OR accepted != sent + expired + evicted + damaged + stored"
    " + (SELECT count(*) FROM dead_letters d WHERE d.queue = q.id)",
    "a queue has messages above its last": "SELECT 1 FROM queues q WHERE next_offset <="
    " (SELECT max(offset) FROM references_ WHERE queue = q.id)",
    "messages belong to no queue": "SELECT 1 FROM (SELECT DISTINCT queue FROM references_) WHERE queue NOT IN"
    " (SELECT id FROM queues)",
    "an envelope counts what is not there": "SELECT 1 FROM runs u WHERE typeof(count) != 'integer' OR count !="
    " (SELECT count(*) FROM references_ r WHERE r.queue = u.queue AND r.offset BETWEEN u.first AND u.last"
    " AND r.segment = u.segment)",
    "more room is said to be taken than there is in it": f"SELECT 1 FROM usage WHERE bytes > {ROOM_TOLERANCE}"
    " + 2 * (SELECT coalesce(sum(size), 0) FROM segments)"
    f" + 2 * {outbox.REFERENCE_BYTES} * (SELECT count(*) FROM references_)"
    f" + 2 * (SELECT coalesce(sum(length(content) + {outbox.REFERENCE_BYTES}), 0) FROM dead_letters)",
}


def audit(connection: apsw.Connection) -> str:
    """What is wrong, in a few words; "" when nothing is.  Reads the whole file once."""
    [(found,)] = rows(connection, "PRAGMA integrity_check(1)")
    if found != "ok":
        return str(found)
    return glance(connection) or _ask(connection, _LARGE)


def glance(connection: apsw.Connection) -> str:
    """The same of the small tables alone, which is quick."""
    return _ask(connection, _SMALL)


def read_clock(connection: apsw.Connection) -> Stamp | None:
    """None when there is none that can be believed."""
    return None if _ask(connection, {_CLOCK: _SMALL[_CLOCK]}) else load_stamp(connection)


def _ask(connection: apsw.Connection, questions: dict[str, str]) -> str:
    return next((problem for problem, question in questions.items() if rows(connection, f"{question} LIMIT 1")), "")


def read_totals(connection: apsw.Connection) -> Totals:
    """As the file tells them, when a ``glance`` finds nothing; ``topic`` is not among what it knows."""
    [(commits,)] = rows(connection, "SELECT commits FROM usage")
    return Totals(
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
                connection,
                "SELECT id, endpoint, priority, next_offset, checkpoint, accepted, sent, expired, evicted, damaged"
                " FROM queues ORDER BY id",
            )
        ),
        load_stamp(connection),
        "".join(node for (node,) in rows(connection, "SELECT node FROM owner")),
    )


def compare(found: Totals, kept: Totals | None) -> str:
    """What the totals beside the file say against it; "" also when they are older, as after a power cut."""
    if kept is None or found.commits > kept.commits:
        return ""
    if found.commits < kept.commits:
        return f"it lacks the last {kept.commits - found.commits} commits"
    if found.clock != kept.clock:
        return "its clock was changed"
    if found.node != kept.node:
        return "its owner was changed"
    told = [_counts(queue) for queue in kept.queues]
    return "" if [_counts(queue) for queue in found.queues] == told else "its totals were changed"


def _counts(queue: QueueTotals) -> tuple[object, ...]:
    return tuple(getattr(queue, name) for name in QueueTotals.__struct_fields__ if name != "topic")
