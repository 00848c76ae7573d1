"""Every SQL statement of the outbox by name; those for finding and repairing damage are at the end.

Several values are bound as one JSON list (``json_each``), so that a statement is prepared once for any number of them.
Text that may be damaged is read as bytes (``CAST(… AS BLOB)``), because it may not be valid Unicode.
"""

from __future__ import annotations

from typing import Final

from fairlead_edge.outbox import age
from fairlead_edge.outbox.outbox import REFERENCE_BYTES
from fairlead_edge.outbox.queues import NOTHING_DONE
from fairlead_edge.outbox.totals import COUNT_MAX, PLACE_MAX

# ---- parts of statements -------------------------------------------------------------------------------------------

_LISTED: Final = "IN (SELECT value FROM json_each(?))"
_WITH_RUNS: Final = "references_ r LEFT JOIN runs u ON u.segment = r.segment AND u.queue = r.queue"
"""References with the columns of their runs, including references whose run is lost."""
_MESSAGE: Final = (
    "r.offset, r.segment, r.start, r.size, r.checksum,"
    " u.first, u.last, u.epoch, u.enqueued, u.expires, CAST(u.topic AS BLOB), CAST(u.inherits AS BLOB), u.checksum,"
    " u.expiry_checksum"
)
"""The columns for ``bodies.Bodies.checked``."""
_ENVELOPE: Final = (
    "u.first, u.last, u.epoch, u.enqueued, u.expires, CAST(u.topic AS BLOB), CAST(u.inherits AS BLOB), u.checksum,"
    " u.expiry_checksum"
)
"""The columns of an envelope, for ``expiry``."""
_LIVE: Final = "(u.expires IS NULL OR u.expires > ?)"

# ---- queues --------------------------------------------------------------------------------------------------------

QUEUES: Final = "SELECT endpoint, priority FROM queues ORDER BY endpoint, priority"
"""The names of all queues."""
NUMBERED_QUEUES: Final = "SELECT id, endpoint, priority FROM queues"
"""Number and name of all queues."""
QUEUE_BY_NAME: Final = "SELECT id, checkpoint FROM queues WHERE endpoint = ? AND priority = ?"
"""Number and checkpoint of one queue."""
QUEUE_BY_NUMBER: Final = "SELECT endpoint, priority FROM queues WHERE id = ?"
"""The name of one queue."""
QUEUES_WITH_MESSAGES: Final = "SELECT id, endpoint, priority, checkpoint FROM queues WHERE stored > 0"
"""Queues in which something may have expired."""
QUEUE_COUNTERS: Final = (
    "SELECT id, endpoint, priority, checkpoint, stored, bytes, accepted, sent, expired, evicted, damaged"
    " FROM queues ORDER BY endpoint, priority"
)
"""For the status."""
QUEUE_TOTALS: Final = (
    "SELECT id, endpoint, priority, next_offset, checkpoint, accepted, sent, expired, evicted, damaged"
    " FROM queues ORDER BY id"
)
"""For the totals that are kept beside the file."""
EXTEND_QUEUE: Final = (
    "INSERT INTO queues(endpoint, priority, next_offset, stored, bytes, accepted) VALUES(?1, ?2, ?3, ?3, ?4, ?3)"
    " ON CONFLICT(endpoint, priority) DO UPDATE SET next_offset = next_offset + ?3, stored = stored + ?3,"
    " bytes = bytes + ?4, accepted = accepted + ?3 RETURNING id, next_offset - ?3"
)
"""Accept ?3 messages with ?4 bytes; gives the queue's number and the first offset."""
SHORTEN_QUEUE: Final = "UPDATE queues SET stored = stored - ?, bytes = bytes - ? WHERE id = ?"
"""Subtract removed messages and their bytes."""
COUNT_SENT: Final = (
    "UPDATE queues SET sent = sent + ?, checkpoint = max(checkpoint, min(?, next_offset - 1)) WHERE id = ?"
)
"""The checkpoint never decreases, and never passes the last accepted message."""
COUNT_EXPIRED: Final = "UPDATE queues SET expired = expired + ? WHERE id = ?"
"""Messages whose time to live ended."""
COUNT_EVICTED: Final = "UPDATE queues SET evicted = evicted + ? WHERE id = ?"
"""Messages that were evicted."""
COUNT_DAMAGED: Final = "UPDATE queues SET damaged = damaged + ? WHERE id = ?"
"""Messages that the disk damaged or lost."""
COUNT_ACCEPTED: Final = "UPDATE queues SET accepted = accepted + 1 WHERE id = ?"
"""A gap record that goes to the dead letters at once."""
EXTENT_OF_QUEUE: Final = "SELECT next_offset, checkpoint FROM queues WHERE id = ?"
"""The range of offsets in which messages may be missing."""
UNCOUNT_ACCEPTED: Final = "UPDATE queues SET accepted = accepted - ? WHERE endpoint = ? AND priority = ?"
"""Replayed dead letters were already counted when they were first accepted."""

# ---- the log: references, runs, segments ---------------------------------------------------------------------------

NEXT_SEGMENT: Final = (
    "SELECT 1 + max(coalesce((SELECT max(id) FROM segments), 0), coalesce((SELECT max(segment) FROM runs), 0))"
)
"""Above every number in use: if a disk lost bodies, their envelopes may still exist."""
LAST_TOPIC: Final = f"SELECT CAST(u.topic AS BLOB) FROM {_WITH_RUNS} WHERE r.queue = ? ORDER BY r.offset DESC LIMIT 1"
"""The topic of the last message."""
INSERT_SEGMENT: Final = "INSERT INTO segments VALUES(?, ?, ?, ?)"
"""Number, size, encoding, content."""
INSERT_RUN: Final = "INSERT INTO runs VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
"""Segment, queue, first, last, count, bytes, epoch, enqueued, expires, topic, checksum, inherits, expiry_checksum."""
INSERT_REFERENCE: Final = "INSERT INTO references_ VALUES(?, ?, ?, ?, ?, ?)"
"""Queue, offset, segment, start, size, checksum."""
LIVE_MESSAGES: Final = (
    f"SELECT {_MESSAGE} FROM {_WITH_RUNS} WHERE r.queue = ? AND r.offset > ? AND {_LIVE} ORDER BY r.offset LIMIT ?"
)
"""The next messages above an offset that are live at a given time, with the columns to check them."""
LISTED_MESSAGES: Final = (
    f"SELECT {_MESSAGE} FROM {_WITH_RUNS} WHERE r.queue = ? AND r.offset > ? AND r.offset {_LISTED} AND {_LIVE}"
    " ORDER BY r.offset LIMIT ?"
)
"""Those of the listed offsets above one that are live at a given time."""
ALL_MESSAGES: Final = (
    f"SELECT {_MESSAGE} FROM {_WITH_RUNS} WHERE r.queue = ? AND r.offset > ? ORDER BY r.offset LIMIT ?"
)
"""The next messages above an offset, live or not."""
ONE_MESSAGE: Final = f"SELECT {_MESSAGE} FROM {_WITH_RUNS} WHERE r.queue = ? AND r.offset = ?"
"""The message at an offset."""
SEGMENT: Final = "SELECT CAST(encoding AS BLOB), content, size FROM segments WHERE id = ?"
"""Packed bodies."""
SEGMENTS_BETWEEN: Final = "SELECT id, CAST(encoding AS BLOB), content, size FROM segments WHERE id BETWEEN ? AND ?"
"""Those between two numbers."""
OLDEST_OFFSETS: Final = "SELECT offset FROM references_ WHERE queue = ? AND offset > ? ORDER BY offset LIMIT ?"
"""The next offsets above one."""
PRESENT_OFFSETS: Final = f"SELECT offset FROM references_ WHERE queue = ? AND offset {_LISTED}"
"""Which of these offsets exist."""
OFFSETS_OF_RUN: Final = (
    "SELECT offset FROM references_ WHERE queue = ? AND offset BETWEEN ? AND ? AND segment = ? LIMIT ?"
)
"""What is left of one run."""
DELETE_REFERENCES: Final = (
    f"DELETE FROM references_ WHERE queue = ? AND offset {_LISTED} RETURNING segment, CAST(size AS INTEGER)"
)
"""Gives the segment and the size of each that existed."""
RUNS_BETWEEN: Final = (
    "SELECT segment, count(*), sum(CAST(size AS INTEGER)) FROM references_"
    " WHERE queue = ? AND offset BETWEEN ? AND ? GROUP BY segment"
)
"""Segment, count and bytes of the references between two offsets."""
DELETE_REFERENCES_BETWEEN: Final = "DELETE FROM references_ WHERE queue = ? AND offset BETWEEN ? AND ?"
"""All of those."""
RUN_COUNTS: Final = f"SELECT segment, count, first, last FROM runs WHERE queue = ? AND segment {_LISTED}"
"""The counts and ranges of these runs."""
SHORTEN_RUN: Final = "UPDATE runs SET count = count - ?, bytes = bytes - ? WHERE segment = ? AND queue = ?"
"""Subtract removed references; the bodies stay until the last one is removed."""
DELETE_RUNS: Final = f"DELETE FROM runs WHERE queue = ? AND segment {_LISTED}"
"""Runs without references."""
DELETE_SEGMENTS: Final = (
    f"DELETE FROM segments WHERE id {_LISTED}"
    " AND NOT EXISTS (SELECT 1 FROM runs WHERE segment = id) RETURNING CAST(size AS INTEGER)"
)
"""Those of the listed segments that no run refers to any more; gives their sizes."""

# ---- expiry --------------------------------------------------------------------------------------------------------

EXPIRED_RUNS: Final = (
    f"SELECT q.id, q.endpoint, q.priority, x.segment, {_ENVELOPE} FROM runs x INDEXED BY runs_by_expiry"
    " CROSS JOIN runs u NOT INDEXED ON u.segment = x.segment AND u.queue = x.queue"
    " CROSS JOIN queues q ON q.id = x.queue WHERE x.expires <= ? LIMIT ?"
)
"""Found by the index, then checked against the row itself, because either may be damaged."""
ENVELOPES_FROM_HEAD: Final = (
    f"SELECT r.offset, {_ENVELOPE} FROM {_WITH_RUNS} WHERE r.queue = ? ORDER BY r.offset LIMIT ?"
)
"""From the oldest message on."""

# ---- inheritance ---------------------------------------------------------------------------------------------------

STALE_RUNS: Final = (
    "SELECT segment, queue, enqueued, checksum FROM runs WHERE inherits = ?1 AND (expires IS NULL OR expires > ?2)"
    " AND expires IS NOT (enqueued + ?3) AND (segment, queue) > (?4, ?5) ORDER BY segment, queue LIMIT ?6"
)
"""Runs of an object (?1) that have not expired at ?2 and whose expiry differs from its time to live (?3)."""
SET_EXPIRY: Final = (
    "UPDATE runs SET expires = ?1, expiry_checksum = ?2 WHERE segment = ?3 AND queue = ?4"
    " AND (expires IS NULL OR expires > ?5)"
)
"""Set the expiry of one run that has not expired at ?5."""

# ---- status --------------------------------------------------------------------------------------------------------

USED_BYTES: Final = "SELECT bytes FROM usage"
"""What counts against the limit."""
USE_BYTES: Final = "UPDATE usage SET bytes = bytes + ? RETURNING bytes"
"""Add used bytes; gives the sum."""
FREE_BYTES: Final = "UPDATE usage SET bytes = bytes - ?"
"""Subtract freed bytes."""
COUNT_COMMIT: Final = "UPDATE usage SET commits = commits + 1"
"""At the end of each transaction."""
EXPIRED_BY_QUEUE: Final = (
    "SELECT queue, sum(count), sum(bytes) FROM runs INDEXED BY runs_by_expiry WHERE expires <= ? GROUP BY queue"
)
"""Messages that have expired and are still stored."""
DEAD_LETTERS_BY_QUEUE: Final = "SELECT queue, count(*) FROM dead_letters GROUP BY queue"
"""How many dead letters each queue has."""
PASSED: Final = (
    f"SELECT count(*), coalesce(sum(r.size), 0) FROM {_WITH_RUNS} WHERE r.queue = ? AND r.offset <= ? AND {_LIVE}"
)
"""Messages below the checkpoint that are still stored and have not expired."""
OLDEST_LIVE: Final = (
    f"SELECT u.enqueued FROM {_WITH_RUNS} WHERE r.queue = ? AND r.offset > ? AND {_LIVE} ORDER BY r.offset LIMIT 1"
)
"""When the oldest message that waits was accepted."""
EXPIRED_OF_LISTED: Final = (
    f"SELECT count(*), coalesce(sum(r.size), 0) FROM {_WITH_RUNS} WHERE r.queue = ?"
    f" AND r.offset {_LISTED} AND u.expires <= ?"
)
"""How many of these offsets have expired, and their bytes."""

# ---- dead letters --------------------------------------------------------------------------------------------------

_LETTERS: Final = (
    "SELECT d.number, d.queue, d.offset, d.epoch, d.ttl, CAST(d.topic AS BLOB), CAST(d.at AS BLOB),"
    " CAST(d.code AS BLOB), CAST(d.reason AS BLOB), d.content, d.checksum,"
    " q.endpoint, q.priority FROM dead_letters d JOIN queues q ON q.id = d.queue"
)
INSERT_LETTER: Final = (
    "INSERT INTO dead_letters(queue, offset, epoch, ttl, topic, at, code, reason, content, checksum)"
    " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
"""Numbers are assigned in order and never reused."""
LETTERS_AFTER: Final = f"{_LETTERS} WHERE d.number > ? ORDER BY d.number LIMIT ?"
"""The next dead letters above a number."""
LETTERS_LISTED: Final = f"{_LETTERS} WHERE d.number {_LISTED} ORDER BY d.number LIMIT ?"
"""Those of the listed dead letters that exist."""
DELETE_LETTERS: Final = (
    f"DELETE FROM dead_letters WHERE number {_LISTED} RETURNING queue, offset, coalesce(length(content), 0)"
)
"""Gives the place and size of each."""
SIZES_OF_LETTERS: Final = (
    "SELECT number, coalesce(length(content), 0) FROM dead_letters WHERE queue = ? ORDER BY number"
)
"""Of one queue, oldest first."""
DATE_LETTERS: Final = "INSERT OR IGNORE INTO refused SELECT number, ? FROM dead_letters WHERE queue = ?"
"""Date the dead letters of a queue that have no date yet."""
OLD_LETTERS: Final = "SELECT number FROM refused WHERE at <= ?"
"""Refused input dated up to a given time."""
FORGET_DATES: Final = (
    "DELETE FROM refused WHERE NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.number = refused.number)"
)
"""Dates of dead letters that no longer exist."""
COUNT_LETTERS: Final = "SELECT count(*), coalesce(sum(length(content)), 0) FROM dead_letters WHERE queue = ?"
"""Of one queue: how many, and their size."""

# ---- attempts ------------------------------------------------------------------------------------------------------

NOTE_ATTEMPT: Final = (
    "INSERT OR REPLACE INTO attempts SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?"
    " WHERE EXISTS (SELECT 1 FROM references_ WHERE queue = ? AND offset = ?)"
)
"""Queue, offset, id, number, leased, until, delay, waited, checksum, and queue and offset again, so that nothing is
stored for a message that does not exist."""
ATTEMPTS: Final = (
    "SELECT q.endpoint, q.priority, a.queue, a.offset, a.id, a.number, a.leased, a.until, a.delay, a.waited,"
    " a.checksum FROM attempts a JOIN queues q ON q.id = a.queue"
    " JOIN references_ r ON r.queue = a.queue AND r.offset = a.offset ORDER BY a.queue, a.offset"
)
"""Attempts of messages that exist."""
ANY_ATTEMPT: Final = "SELECT 1 FROM attempts WHERE queue = ? AND offset BETWEEN ? AND ? LIMIT 1"
"""Whether there is an attempt between two offsets."""
DELETE_ATTEMPTS: Final = f"DELETE FROM attempts WHERE queue = ? AND offset {_LISTED}"
"""Attempts of removed messages."""

# ---- receipts ------------------------------------------------------------------------------------------------------

INSERT_DEPARTED: Final = (
    "INSERT INTO departed SELECT coalesce(max(number), 0) + ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM departed"
    " RETURNING number"
)
"""Its weight in the ring, queue, low, high, among, epoch, outcome, left_at, topic, service, generation, first, newest,
checksum."""
FORGET_DEPARTED: Final = (
    "DELETE FROM departed WHERE number <= (SELECT max(number) FROM departed) - ? RETURNING queue, low, high"
)
"""Delete pages older than the ring; gives the offsets of each."""
FORGET_ALL_DEPARTED: Final = "DELETE FROM departed"
"""Used when their numbers cannot continue."""
DEPARTED_AT: Final = (
    "SELECT number, queue, low, high, among, epoch, CAST(outcome AS BLOB), left_at, CAST(topic AS BLOB),"
    " CAST(service AS BLOB), generation, CAST(first AS BLOB), CAST(newest AS BLOB), checksum"
    " FROM departed WHERE queue = ?1 AND low BETWEEN ?2 AND ?3 AND high >= ?3"
)
"""Pages of a queue that begin between two offsets and go up to the second one or beyond."""
DEPARTED_BETWEEN: Final = "SELECT low, high, among FROM departed WHERE queue = ? AND low BETWEEN ? AND ? AND high >= ?"
"""The offsets of pages of a queue that begin between two offsets and go up to a third one or beyond."""
OLDEST_DEPARTED: Final = "SELECT left_at FROM departed ORDER BY number LIMIT 1"
"""Since when departures are remembered."""
NEXT_DEPARTED: Final = "SELECT min(low) FROM departed WHERE queue = ? AND low >= ?"
"""Where the first page of a queue begins, from an offset on."""
NEXT_REFERENCE: Final = "SELECT min(offset) FROM references_ WHERE queue = ? AND offset >= ?"
"""The first message of a queue, from an offset on."""
KEEP_NAMES: Final = "INSERT OR REPLACE INTO names VALUES(?, ?, ?, ?, ?, ?, ?)"
"""Number, span, enqueued, ids, authors, offsets, checksum.  If a disk lost a queue's last offset, older offsets are
used
again, and the newer message replaces the row."""
NAMES_WITH: Final = (
    "SELECT number, span, enqueued, ids, authors, offsets, checksum FROM names WHERE instr(ids, ?) > 0 ORDER BY number"
)
"""Rows whose ids contain these bytes."""
NAMES_OF_NONE: Final = (
    "SELECT number, span FROM names WHERE number BETWEEN ?3 AND ?4 AND number + span >= ?5 AND NOT EXISTS"
    " (SELECT 1 FROM references_ r WHERE r.queue = ?1 AND r.offset BETWEEN number - ?2 AND number - ?2 + span)"
    " ORDER BY number"
)
"""Rows of a queue (?1), whose numbers begin above ?2, between two numbers, and up to ?5 or beyond, of which no message
waits."""
DROP_NAMES: Final = "DELETE FROM names WHERE number = ?"
"""One row."""
DROP_NAMES_BETWEEN: Final = "DELETE FROM names WHERE number >= ? AND number < ? AND number + span < ?"
"""Rows that begin between two numbers and end before a third one."""
QUEUE_NUMBERED: Final = "SELECT endpoint, priority, checkpoint FROM queues WHERE id = ?"
"""Name and checkpoint of one queue."""
AHEAD: Final = "SELECT count(*) FROM (SELECT 1 FROM references_ WHERE queue = ? AND offset > ? AND offset < ? LIMIT ?)"
"""How many messages wait between two offsets, counted up to a limit."""
TOPICS_OF: Final = (
    f"SELECT r.offset, u.epoch, CAST(u.topic AS BLOB) FROM {_WITH_RUNS} WHERE r.queue = ? AND r.offset {_LISTED}"
    " ORDER BY r.offset"
)
"""Epoch and topic of these offsets."""
LETTERS_WITH: Final = f"{_LETTERS} WHERE instr(d.content, ?) > 0 ORDER BY d.number LIMIT ?"
"""Dead letters whose content contains these bytes."""
KEEP_REACHED: Final = "INSERT OR REPLACE INTO reached VALUES(?, ?, ?, ?)"
"""Topic, content, as_of, checksum."""
FORGET_REACHED: Final = "DELETE FROM reached WHERE topic NOT IN (SELECT topic FROM reached ORDER BY as_of DESC LIMIT ?)"
"""Delete all but the latest."""
REACHED: Final = "SELECT CAST(topic AS BLOB), content, as_of, checksum FROM reached"
"""The entries of all topics."""

# ---- idempotency keys ----------------------------------------------------------------------------------------------

KEY: Final = "SELECT digest, answer, at, checksum FROM receipts WHERE key = ?"
"""The request a key came with, and its answer."""
INSERT_KEY: Final = "INSERT INTO receipts VALUES(?, ?, ?, ?, ?)"
"""Key, digest, answer, at, checksum."""
FORGET_OLD_KEYS: Final = "DELETE FROM receipts WHERE at < ?"
"""Keys from before a given time."""
FORGET_EXCESS_KEYS: Final = (
    "DELETE FROM receipts WHERE at < (SELECT at FROM receipts ORDER BY at DESC LIMIT 1 OFFSET ?)"
)
"""Delete all but the newest."""

# ---- clock and owner -----------------------------------------------------------------------------------------------

CLOCK: Final = "SELECT boot_id, boot_seconds, wall_seconds, age_seconds FROM clock"
"""The last stamp of the store's clock."""
SET_CLOCK: Final = "INSERT OR REPLACE INTO clock VALUES(1, ?, ?, ?, ?)"
"""Boot id, seconds of that boot, of the wall clock, of the store's clock."""
DELETE_CLOCK: Final = "DELETE FROM clock"
"""Done before a plausible one is set."""
OWNER: Final = "SELECT node FROM owner"
"""The node that accepted the stored messages."""
SET_OWNER: Final = "INSERT OR REPLACE INTO owner VALUES(1, ?)"
"""One row."""
HELD: Final = "SELECT coalesce(sum(stored), 0) + (SELECT count(*) FROM dead_letters) FROM queues"
"""Messages and dead letters that an owner would lose."""

# ---- input from the cloud --------------------------------------------------------------------------------------------

INPUT_BY_ID: Final = "SELECT id, queue, offset, expires, state, checksum FROM inputs WHERE id = ?"
"""One message from the cloud."""
INSERT_INPUT: Final = (
    "INSERT OR REPLACE INTO inputs(id, queue, offset, expires, state, checksum) VALUES(?, ?, ?, ?, ?, ?)"
)
"""Id, queue, offset, expires, state, checksum."""
INPUTS_AT: Final = (
    f"SELECT id, queue, offset, expires, state, checksum FROM inputs WHERE queue = ? AND offset {_LISTED}"
)
"""Those at these offsets of a queue."""
CHANGE_INPUT: Final = "UPDATE inputs SET state = ?, checksum = ? WHERE id = ?"
"""Change its state."""
FORGET_INPUTS: Final = "DELETE FROM inputs WHERE expires < ?"
"""Forget expired inputs."""
COUNT_INPUTS: Final = "SELECT count(*) FROM inputs"
"""How many inputs are remembered."""
QUEUE_HAS_INPUTS: Final = "SELECT 1 FROM inputs WHERE queue = ? LIMIT 1"
"""Whether any message from the cloud went into this queue."""
INPUT_WAITS: Final = "SELECT 1 FROM references_ WHERE queue = ? AND offset = ?"
"""Whether this message is still in its queue."""
END_OF_QUEUE: Final = "SELECT next_offset FROM queues WHERE id = ?"
"""The next offset of a queue."""
INPUT_IS_LEASED: Final = "SELECT 1 FROM attempts WHERE queue = ? AND offset = ? AND leased"
"""Whether a module has leased this message."""

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
"""In this order: count the existing rows, delete rows without references, then compute the totals."""
BALANCE: Final = (
    "UPDATE queues SET accepted = sent + expired + evicted + damaged + stored"
    " + (SELECT count(*) FROM dead_letters WHERE queue = queues.id)"
)
"""Everything accepted either ended somewhere or is stored."""

# ---- audit: each gives a row where something is wrong --------------------------------------------------------------

ROOM_TOLERANCE: Final = 1 << 20
"""Tolerance for the count of used bytes; more than twice the existing bytes plus this is damage."""
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
"""A column with the wrong type."""
QUEUE_IMPOSSIBLE: Final = (
    f"SELECT 1 FROM queues WHERE priority NOT BETWEEN 0 AND {PLACE_MAX}"
    f" OR checkpoint NOT BETWEEN {NOTHING_DONE} AND next_offset - 1"
    + "".join(f" OR {name} NOT BETWEEN 0 AND {COUNT_MAX}" for name in _COUNTS)
    + " LIMIT 1"
)
"""Totals that no history can lead to."""
USAGE_UNKNOWN: Final = (
    "SELECT 1 FROM (SELECT count(*) AS n, total(typeof(bytes) = 'integer'"
    f" AND bytes BETWEEN 0 AND {COUNT_MAX} AND typeof(commits) = 'integer' AND commits BETWEEN 0 AND {COUNT_MAX})"
    " AS good FROM usage) WHERE n != 1 OR good != 1 LIMIT 1"
)
"""Not exactly one valid row of counts."""
CLOCK_UNREADABLE: Final = (
    "SELECT 1 FROM clock WHERE typeof(boot_id) != 'text'"
    + "".join(
        f" OR typeof({name}) != 'real' OR {name} NOT BETWEEN 0 AND {age.SECONDS_MAX}"
        for name in ("boot_seconds", "wall_seconds", "age_seconds")
    )
    + " LIMIT 1"
)
"""A clock that is not plausible."""
OWNER_UNREADABLE: Final = "SELECT 1 FROM owner WHERE id != 1 OR typeof(node) != 'text' LIMIT 1"
"""An owner without a name."""
QUEUE_MISCOUNTED: Final = (
    "SELECT 1 FROM queues q WHERE stored != (SELECT count(*) FROM references_ WHERE queue = q.id)"
    " OR accepted != sent + expired + evicted + damaged + stored"
    " + (SELECT count(*) FROM dead_letters d WHERE d.queue = q.id) LIMIT 1"
)
"""The number of messages differs from the count."""
OFFSET_ABOVE_LAST: Final = (
    "SELECT 1 FROM queues q WHERE next_offset <= (SELECT max(offset) FROM references_ WHERE queue = q.id) LIMIT 1"
)
"""An offset that was never assigned."""
REFERENCE_WITHOUT_QUEUE: Final = (
    "SELECT 1 FROM (SELECT DISTINCT queue FROM references_) WHERE queue NOT IN (SELECT id FROM queues) LIMIT 1"
)
"""Messages without a queue."""
RUN_MISCOUNTED: Final = (
    "SELECT 1 FROM runs u WHERE typeof(count) != 'integer' OR count !="
    " (SELECT count(*) FROM references_ r WHERE r.queue = u.queue AND r.offset BETWEEN u.first AND u.last"
    " AND r.segment = u.segment) LIMIT 1"
)
"""An envelope that counts messages which do not exist."""
USAGE_TOO_LARGE: Final = (
    f"SELECT 1 FROM usage WHERE bytes > {ROOM_TOLERANCE}"
    " + 2 * (SELECT coalesce(sum(size), 0) FROM segments)"
    f" + 2 * {REFERENCE_BYTES} * (SELECT count(*) FROM references_)"
    f" + 2 * (SELECT coalesce(sum(length(content) + {REFERENCE_BYTES}), 0) FROM dead_letters) LIMIT 1"
)
"""More used bytes counted than the file can hold."""

# ---- salvage: rows that were copied out of a damaged file ----------------------------------------------------------

COMMITS: Final = "SELECT commits FROM usage"
"""Transactions so far."""
SET_COMMITS: Final = "UPDATE usage SET commits = ?"
"""One more than the file, or the totals beside it, say."""
ENDS_OF_QUEUES: Final = "SELECT id, next_offset FROM queues WHERE typeof(next_offset) = 'integer'"
"""The next offset of each queue according to the damaged file."""
QUEUES_OF_RUNS: Final = "SELECT DISTINCT queue FROM runs"
"""Even if the queues' own rows are lost."""
NAMELESS_QUEUES: Final = "SELECT DISTINCT queue FROM runs WHERE queue NOT IN (SELECT id FROM queues)"
"""Create queues that only runs refer to, by number."""
ENVELOPES_OF_QUEUE: Final = (
    "SELECT first, last, epoch, enqueued, expires, CAST(topic AS BLOB), CAST(inherits AS BLOB), checksum FROM runs"
    " WHERE queue = ? LIMIT ?"
)
"""A few envelopes, to find the queue's name with."""
NAME_QUEUE: Final = "INSERT OR IGNORE INTO queues(id, endpoint, priority) VALUES(?, ?, ?)"
"""Set the recovered name of a queue."""
DELETE_QUEUES: Final = "DELETE FROM queues"
"""Done before restoring those kept beside the file."""
INSERT_QUEUE_TOTALS: Final = (
    "INSERT INTO queues(id, endpoint, priority, next_offset, checkpoint, accepted, sent, expired, evicted, damaged)"
    " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
"""Restore a queue kept beside the file."""
DELETE_UNREADABLE_QUEUES: Final = (
    "DELETE FROM queues WHERE typeof(endpoint) != 'text' OR typeof(priority) != 'integer'"
    f" OR priority NOT BETWEEN 0 AND {PLACE_MAX}"
)
"""Queues without a plausible name."""
RESET_IMPOSSIBLE_COUNTS: Final = tuple(
    f"UPDATE queues SET {name} = 0 WHERE typeof({name}) != 'integer' OR {name} NOT BETWEEN 0 AND {COUNT_MAX}"
    for name in ("next_offset", "accepted", "sent", "expired", "evicted", "damaged")
)
"""Counted again later."""
RESET_IMPOSSIBLE_CHECKPOINTS: Final = (
    f"UPDATE queues SET checkpoint = {NOTHING_DONE}"
    f" WHERE typeof(checkpoint) != 'integer' OR checkpoint < {NOTHING_DONE}"
)
"""An implausible checkpoint: treat nothing as done."""
DELETE_WITHOUT_QUEUE: Final = tuple(
    f"DELETE FROM {table} WHERE queue NOT IN (SELECT id FROM queues)"
    for table in ("dead_letters", "references_", "runs")
)
"""References of queues whose name is lost."""
DELETE_SETTLED: Final = (
    "DELETE FROM references_ WHERE queue = ?1 AND offset <= ?2 AND segment IN"
    " (SELECT segment FROM runs WHERE queue = ?1 AND (expires IS NULL OR expires > ?3))"
)
"""Messages settled in commits that the file lost, which reappeared; expired ones are counted when they are swept."""
DELETE_IMPOSSIBLE_OFFSETS: Final = (
    f"DELETE FROM references_ WHERE queue = ? AND (offset NOT BETWEEN 0 AND {COUNT_MAX - 1}"
    " OR typeof(offset) != 'integer')"
)
"""Offsets that no queue assigns."""
LOWEST_OFFSET: Final = "SELECT min(offset) FROM references_ WHERE queue = ?"
"""NULL for an empty queue."""
END_OF_LOG: Final = "SELECT coalesce(max(offset) + 1, 0) FROM references_ WHERE queue = ?"
"""The offset after the last existing one."""
RAISE_NEXT_OFFSET: Final = "UPDATE queues SET next_offset = max(next_offset, ?) WHERE id = ?"
"""Above every existing offset."""
LOWER_CHECKPOINT: Final = "UPDATE queues SET checkpoint = min(checkpoint, next_offset - 1, ? - 1) WHERE id = ?"
"""A checkpoint known only from the damaged file must not hide messages."""
LATEST_ENQUEUED: Final = "SELECT max(enqueued) FROM runs WHERE typeof(enqueued) = 'real' AND enqueued < 1e12"
"""Where the clock continues if there is no stamp."""
MISSING: Final = (
    "SELECT accepted - sent - expired - evicted - damaged"
    " - (SELECT count(*) FROM references_ WHERE queue = q.id)"
    " - (SELECT count(*) FROM dead_letters WHERE queue = q.id) FROM queues q WHERE id = ?"
)
"""Accepted, ended nowhere, and missing."""
WAITING: Final = "SELECT coalesce(sum(stored), 0) FROM queues"
"""Messages that were saved."""
