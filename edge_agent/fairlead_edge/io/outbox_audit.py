"""Is the outbox's file what was written to it?  Its structure, its types, and its totals against those kept beside it.

Bodies and envelopes have checksums of their own and are not read here (``outbox_damage.find``).
"""

from __future__ import annotations

from typing import Final

import apsw

from fairlead_edge.io.outbox_queries import load_stamp, rows
from fairlead_edge.totals import QueueTotals, Totals

_NUMBERS: Final = (
    *("id", "priority", "next_offset", "checkpoint", "stored", "bytes"),
    *("accepted", "sent", "expired", "evicted", "damaged"),
)
_QUESTIONS: Final = {
    "a queue is not readable": "SELECT 1 FROM queues WHERE typeof(endpoint) != 'text'"
    + "".join(f" OR typeof({name}) != 'integer'" for name in _NUMBERS),
    "a queue's totals cannot be": "SELECT 1 FROM queues WHERE accepted < 0 OR sent < 0 OR expired < 0 OR evicted < 0"
    " OR damaged < 0 OR stored < 0 OR bytes < 0 OR checkpoint < -1 OR next_offset < 0",
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
    "the room taken is not known": "SELECT 1 FROM (SELECT count(*) AS n FROM usage WHERE typeof(bytes) = 'integer'"
    " AND bytes >= 0 AND typeof(commits) = 'integer') WHERE n != 1",
    "the clock is not readable": "SELECT 1 FROM clock WHERE typeof(boot_id) != 'text'"
    " OR typeof(boot_seconds) != 'real' OR typeof(wall_seconds) != 'real' OR typeof(age_seconds) != 'real'",
}


def audit(connection: apsw.Connection) -> str:
    """What is wrong, in a few words; "" when nothing is.  Reads the whole file once."""
    [(found,)] = rows(connection, "PRAGMA integrity_check(1)")
    if found != "ok":
        return str(found)
    for problem, question in _QUESTIONS.items():
        if rows(connection, f"{question} LIMIT 1"):
            return problem
    return ""


def read_totals(connection: apsw.Connection) -> Totals:
    """As the file tells them; ``topic`` is not among what it knows."""
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
