"""Every SQL statement by which damage to the outbox is found and repaired, by name.  The tables are in ``schema``."""

from __future__ import annotations

from typing import Final

from fairlead_edge.outbox import age
from fairlead_edge.outbox.checkpoint import NOTHING_DONE
from fairlead_edge.outbox.outbox import REFERENCE_BYTES
from fairlead_edge.outbox.totals import COUNT_MAX, PLACE_MAX

# ---- totals made again ---------------------------------------------------------------------------------------------

RECOUNT: Final = (
    "UPDATE runs SET (count, bytes) = (SELECT count(*), coalesce(sum(size), 0) FROM references_ r"
    " WHERE r.queue = runs.queue AND r.offset BETWEEN runs.first AND runs.last AND r.segment = runs.segment)",
    "DELETE FROM runs WHERE count = 0",
    "DELETE FROM segments WHERE NOT EXISTS (SELECT 1 FROM runs WHERE segment = id)",
    "UPDATE queues SET (stored, bytes) ="
    " (SELECT count(*), coalesce(sum(size), 0) FROM references_ WHERE queue = queues.id)",
    "UPDATE usage SET bytes = (SELECT coalesce(sum(size), 0) FROM segments)"
    f" + {REFERENCE_BYTES} * (SELECT count(*) FROM references_)"
    f" + (SELECT coalesce(sum(length(content) + {REFERENCE_BYTES}), 0) FROM dead_letters)",
)
"""In this order: counts from what is there, then what belongs to nothing goes, then the totals."""
BALANCE: Final = (
    "UPDATE queues SET accepted = sent + expired + evicted + damaged + stored"
    " + (SELECT count(*) FROM dead_letters WHERE queue = queues.id)"
)
"""Accepted is what ended somewhere or is there."""

# ---- audit: each gives a row where something is wrong --------------------------------------------------------------

ROOM_TOLERANCE: Final = 1 << 20
"""Bytes that the room taken may be miscounted by; twice what is there, and so much more, is no miscount."""
_NUMBERS: Final = (
    *("id", "priority", "next_offset", "checkpoint", "stored", "bytes"),
    *("accepted", "sent", "expired", "evicted", "damaged"),
)
_COUNTS: Final = ("accepted", "sent", "expired", "evicted", "damaged", "stored", "bytes", "next_offset")

QUEUE_UNREADABLE: Final = (
    "SELECT 1 FROM queues WHERE typeof(endpoint) != 'text'"
    + "".join(f" OR typeof({name}) != 'integer'" for name in _NUMBERS)
    + " LIMIT 1"
)
"""A column of another type than was written."""
QUEUE_IMPOSSIBLE: Final = (
    f"SELECT 1 FROM queues WHERE priority NOT BETWEEN 0 AND {PLACE_MAX}"
    f" OR checkpoint NOT BETWEEN {NOTHING_DONE} AND next_offset - 1"
    + "".join(f" OR {name} NOT BETWEEN 0 AND {COUNT_MAX}" for name in _COUNTS)
    + " LIMIT 1"
)
"""Totals that no history leads to."""
USAGE_UNKNOWN: Final = (
    "SELECT 1 FROM (SELECT count(*) AS n, total(typeof(bytes) = 'integer'"
    f" AND bytes BETWEEN 0 AND {COUNT_MAX} AND typeof(commits) = 'integer' AND commits BETWEEN 0 AND {COUNT_MAX})"
    " AS good FROM usage) WHERE n != 1 OR good != 1 LIMIT 1"
)
"""Not one row of counts."""
CLOCK_UNREADABLE: Final = (
    "SELECT 1 FROM clock WHERE typeof(boot_id) != 'text'"
    + "".join(
        f" OR typeof({name}) != 'real' OR {name} NOT BETWEEN 0 AND {age.SECONDS_MAX}"
        for name in ("boot_seconds", "wall_seconds", "age_seconds")
    )
    + " LIMIT 1"
)
"""A clock that cannot be believed."""
OWNER_UNREADABLE: Final = "SELECT 1 FROM owner WHERE id != 1 OR typeof(node) != 'text' LIMIT 1"
"""An owner without a name."""
QUEUE_MISCOUNTED: Final = (
    "SELECT 1 FROM queues q WHERE stored != (SELECT count(*) FROM references_ WHERE queue = q.id)"
    " OR accepted != sent + expired + evicted + damaged + stored"
    " + (SELECT count(*) FROM dead_letters d WHERE d.queue = q.id) LIMIT 1"
)
"""Messages that are not as many as were counted."""
OFFSET_ABOVE_LAST: Final = (
    "SELECT 1 FROM queues q WHERE next_offset <= (SELECT max(offset) FROM references_ WHERE queue = q.id) LIMIT 1"
)
"""An offset that was never given."""
REFERENCE_WITHOUT_QUEUE: Final = (
    "SELECT 1 FROM (SELECT DISTINCT queue FROM references_) WHERE queue NOT IN (SELECT id FROM queues) LIMIT 1"
)
"""Messages of no queue."""
RUN_MISCOUNTED: Final = (
    "SELECT 1 FROM runs u WHERE typeof(count) != 'integer' OR count !="
    " (SELECT count(*) FROM references_ r WHERE r.queue = u.queue AND r.offset BETWEEN u.first AND u.last"
    " AND r.segment = u.segment) LIMIT 1"
)
"""An envelope that counts what is not there."""
USAGE_TOO_LARGE: Final = (
    f"SELECT 1 FROM usage WHERE bytes > {ROOM_TOLERANCE}"
    " + 2 * (SELECT coalesce(sum(size), 0) FROM segments)"
    f" + 2 * {REFERENCE_BYTES} * (SELECT count(*) FROM references_)"
    f" + 2 * (SELECT coalesce(sum(length(content) + {REFERENCE_BYTES}), 0) FROM dead_letters) LIMIT 1"
)
"""More room said to be taken than there is in the file."""

# ---- salvage: rows that were copied out of a damaged file ----------------------------------------------------------

COMMITS: Final = "SELECT commits FROM usage"
"""Transactions so far."""
SET_COMMITS: Final = "UPDATE usage SET commits = ?"
"""One more than the file, or what is kept beside it, says."""
ENDS_OF_QUEUES: Final = "SELECT id, next_offset FROM queues WHERE typeof(next_offset) = 'integer'"
"""The next offset of each queue as the damaged file has it."""
QUEUES_OF_RUNS: Final = "SELECT DISTINCT queue FROM runs"
"""Also where the queues' own rows are gone."""
NAMELESS_QUEUES: Final = "SELECT DISTINCT queue FROM runs WHERE queue NOT IN (SELECT id FROM queues)"
"""Queues that only their runs name, by number."""
ENVELOPES_OF_QUEUE: Final = (
    "SELECT first, last, epoch, enqueued, expires, CAST(topic AS BLOB), CAST(inherits AS BLOB), checksum FROM runs"
    " WHERE queue = ? LIMIT ?"
)
"""Some, to find the queue's name by."""
NAME_QUEUE: Final = "INSERT OR IGNORE INTO queues(id, endpoint, priority) VALUES(?, ?, ?)"
"""A queue whose name is found again."""
DELETE_QUEUES: Final = "DELETE FROM queues"
"""Before those that are kept beside the file."""
INSERT_QUEUE_TOTALS: Final = (
    "INSERT INTO queues(id, endpoint, priority, next_offset, checkpoint, accepted, sent, expired, evicted, damaged)"
    " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
"""A queue as it is kept beside the file."""
DELETE_UNREADABLE_QUEUES: Final = (
    "DELETE FROM queues WHERE typeof(endpoint) != 'text' OR typeof(priority) != 'integer'"
    f" OR priority NOT BETWEEN 0 AND {PLACE_MAX}"
)
"""Without a name that can be believed."""
RESET_IMPOSSIBLE_COUNTS: Final = tuple(
    f"UPDATE queues SET {name} = 0 WHERE typeof({name}) != 'integer' OR {name} NOT BETWEEN 0 AND {COUNT_MAX}"
    for name in ("next_offset", "accepted", "sent", "expired", "evicted", "damaged")
)
"""Counted again later."""
RESET_IMPOSSIBLE_CHECKPOINTS: Final = (
    f"UPDATE queues SET checkpoint = {NOTHING_DONE}"
    f" WHERE typeof(checkpoint) != 'integer' OR checkpoint < {NOTHING_DONE}"
)
"""Nothing is done that cannot be said."""
DELETE_WITHOUT_QUEUE: Final = tuple(
    f"DELETE FROM {table} WHERE queue NOT IN (SELECT id FROM queues)"
    for table in ("dead_letters", "references_", "runs")
)
"""Of queues of which not even the name is left."""
DELETE_SETTLED: Final = (
    "DELETE FROM references_ WHERE queue = ?1 AND offset <= ?2 AND segment IN"
    " (SELECT segment FROM runs WHERE queue = ?1 AND (expires IS NULL OR expires > ?3))"
)
"""Settled in commits the file has lost, and so back in it; what had expired is counted when it is swept."""
DELETE_IMPOSSIBLE_OFFSETS: Final = (
    f"DELETE FROM references_ WHERE queue = ? AND (offset NOT BETWEEN 0 AND {COUNT_MAX - 1}"
    " OR typeof(offset) != 'integer')"
)
"""Offsets that no queue gives."""
LOWEST_OFFSET: Final = "SELECT min(offset) FROM references_ WHERE queue = ?"
"""None in an empty queue."""
END_OF_LOG: Final = "SELECT coalesce(max(offset) + 1, 0) FROM references_ WHERE queue = ?"
"""The offset after the last one that is there."""
RAISE_NEXT_OFFSET: Final = "UPDATE queues SET next_offset = max(next_offset, ?) WHERE id = ?"
"""Above all that is there."""
LOWER_CHECKPOINT: Final = "UPDATE queues SET checkpoint = min(checkpoint, next_offset - 1, ? - 1) WHERE id = ?"
"""A checkpoint that only the damaged file says must hide nothing."""
LATEST_ENQUEUED: Final = "SELECT max(enqueued) FROM runs WHERE typeof(enqueued) = 'real' AND enqueued < 1e12"
"""From when the clock goes on where nothing else says."""
MISSING: Final = (
    "SELECT accepted - sent - expired - evicted - damaged"
    " - (SELECT count(*) FROM references_ WHERE queue = q.id)"
    " - (SELECT count(*) FROM dead_letters WHERE queue = q.id) FROM queues q WHERE id = ?"
)
"""Accepted, ended nowhere, and not there."""
WAITING: Final = "SELECT coalesce(sum(stored), 0) FROM queues"
"""Messages that go on."""
