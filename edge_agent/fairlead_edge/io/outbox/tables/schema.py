"""The tables of the outbox.

    queues       one row per (endpoint, priority): next offset, checkpoint, counters; a start reads no backlog
    references_  one row per (queue, offset), clustered by offset and very narrow: the log itself
    runs         what the references of one request to one queue share: epoch, age, time to live, topic; ``inherits``
                 names the EdgeRoutes object whose time to live counts, and ``expires`` follows it (``expiry``)
    names        the ids and authors of messages that wait or are remembered, numbered by queue and first offset
    segments     their bodies, end to end, compressed: flash wears by bytes written
    dead_letters what was refused permanently, with the reason
    receipts     Idempotency-Keys and the answers they got
    attempts     messages that modules have leased, or had and did not acknowledge, by (queue, offset)
    departed     messages that left, in pages, for receipts; numbered by the bytes of the ring up to their end
    reached      how far tables have read each topic, by the hub's latest report
    refused      the age (store's clock) of dead letters of refused input, by number
    inputs       messages from the cloud for modules, by id, until an hour after they expire (``inputs``)
    owner        one row: the node that accepted what is held
    clock, usage one row each: the store's clock on disk; the bytes that count against the limit, and commits so far

Rows that are sent or shown carry a checksum (``checksum``).  ``PRAGMA user_version`` is the version of the schema.
"""

from __future__ import annotations

from typing import Final

import apsw

from fairlead_edge.errors import StoreVersionUnknown
from fairlead_edge.io.outbox.tables import receipt_tables
from fairlead_edge.io.sqlite import statements as sqlite
from fairlead_edge.io.sqlite.rows import rows

VERSION: Final = 1
"""The version of the schema.  A file with another version is refused."""
TABLES: Final = """
    CREATE TABLE queues(
        id INTEGER PRIMARY KEY,
        endpoint TEXT NOT NULL,
        priority INTEGER NOT NULL,
        next_offset INTEGER NOT NULL DEFAULT 0,
        checkpoint INTEGER NOT NULL DEFAULT -1,
        stored INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0,
        accepted INTEGER NOT NULL DEFAULT 0,
        sent INTEGER NOT NULL DEFAULT 0,
        expired INTEGER NOT NULL DEFAULT 0,
        evicted INTEGER NOT NULL DEFAULT 0,
        damaged INTEGER NOT NULL DEFAULT 0,
        UNIQUE(endpoint, priority)
    );
    CREATE TABLE references_(
        queue INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        segment INTEGER NOT NULL,
        start INTEGER NOT NULL,
        size INTEGER NOT NULL,
        checksum INTEGER,
        PRIMARY KEY(queue, offset)
    ) WITHOUT ROWID;
    CREATE TABLE runs(
        segment INTEGER NOT NULL,
        queue INTEGER NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        count INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        enqueued REAL NOT NULL,
        expires REAL,
        topic TEXT NOT NULL,
        checksum INTEGER,
        inherits TEXT,
        expiry_checksum INTEGER,
        PRIMARY KEY(segment, queue)
    ) WITHOUT ROWID;
    CREATE INDEX runs_by_expiry ON runs(expires) WHERE expires IS NOT NULL;
    CREATE TABLE segments(id INTEGER PRIMARY KEY, size INTEGER NOT NULL, encoding TEXT NOT NULL, content BLOB NOT NULL);
    CREATE TABLE dead_letters(
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        ttl REAL,
        topic TEXT NOT NULL,
        at TEXT NOT NULL,
        code TEXT NOT NULL,
        reason TEXT NOT NULL,
        content BLOB NOT NULL,
        checksum INTEGER
    );
    CREATE INDEX dead_letters_by_queue ON dead_letters(queue);
    CREATE TABLE receipts(
        key TEXT PRIMARY KEY, digest BLOB NOT NULL, answer BLOB NOT NULL, at REAL NOT NULL, checksum INTEGER
    );
    CREATE INDEX receipts_by_time ON receipts(at);
    CREATE TABLE clock(
        id INTEGER PRIMARY KEY CHECK (id = 1),
        boot_id TEXT NOT NULL, boot_seconds REAL NOT NULL, wall_seconds REAL NOT NULL, age_seconds REAL NOT NULL
    );
    CREATE TABLE usage(
        id INTEGER PRIMARY KEY CHECK (id = 1), bytes INTEGER NOT NULL, commits INTEGER NOT NULL DEFAULT 0
    );
    INSERT INTO usage VALUES(1, 0, 0);
    CREATE TABLE owner(id INTEGER PRIMARY KEY CHECK (id = 1), node TEXT NOT NULL);
    CREATE TABLE attempts(
        queue INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        id BLOB NOT NULL,
        number INTEGER NOT NULL,
        leased INTEGER NOT NULL,
        until REAL NOT NULL,
        delay REAL NOT NULL,
        waited REAL NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY(queue, offset)
    ) WITHOUT ROWID;
    """

ADDITIONS: Final = """
    CREATE TABLE IF NOT EXISTS names(
        number INTEGER PRIMARY KEY,
        span INTEGER NOT NULL,
        enqueued REAL NOT NULL,
        ids BLOB NOT NULL,
        authors BLOB NOT NULL,
        offsets BLOB NOT NULL,
        checksum INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS departed(
        number INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        low INTEGER NOT NULL,
        high INTEGER NOT NULL,
        among BLOB NOT NULL,
        epoch INTEGER NOT NULL,
        outcome TEXT NOT NULL,
        left_at REAL NOT NULL,
        topic TEXT NOT NULL,
        service TEXT NOT NULL,
        generation INTEGER NOT NULL,
        first TEXT NOT NULL,
        newest TEXT NOT NULL,
        checksum INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS departed_by_place ON departed(queue, low);
    CREATE TABLE IF NOT EXISTS reached(
        topic TEXT PRIMARY KEY, content BLOB NOT NULL, as_of REAL NOT NULL, checksum INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS inputs(
        id TEXT PRIMARY KEY,
        queue INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        expires REAL NOT NULL,
        state TEXT NOT NULL,
        checksum INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS inputs_by_place ON inputs(queue, offset);
    CREATE INDEX IF NOT EXISTS inputs_by_expiry ON inputs(expires);
    CREATE TABLE IF NOT EXISTS refused(number INTEGER PRIMARY KEY, at REAL NOT NULL);
    """
"""Tables whose loss loses no message: created if missing, and recreated if their schema is damaged."""


def model(version: int, *, additions: bool = True) -> apsw.Connection | None:
    """An empty outbox of this version, in memory; None for an unknown version."""
    if version not in (0, VERSION):
        return None
    connection = apsw.Connection(":memory:")
    if version:
        create(connection, additions=additions)
    return connection


def create(connection: apsw.Connection, *, additions: bool = True) -> None:
    """Create the tables in an empty file."""
    rows(connection, TABLES)
    if additions:
        rows(connection, ADDITIONS)
    rows(connection, sqlite.set_user_version(VERSION))


def prepare(connection: apsw.Connection) -> None:
    """Create what is missing.  Raises ``StoreVersionUnknown``; runs in the caller's transaction."""
    found: int = rows(connection, sqlite.USER_VERSION)[0][0]
    if found not in (0, VERSION):
        raise StoreVersionUnknown(f"the outbox has version {found}; this program reads version {VERSION}")
    if not found:
        create(connection)
        return
    made = apsw.Connection(":memory:")
    rows(made, ADDITIONS)
    for (table,) in rows(made, sqlite.TABLES):
        try:
            there = rows(connection, sqlite.table_info(table))
        except UnicodeDecodeError:  # the name of a column is damaged
            there = [()]
        if there and there != rows(made, sqlite.table_info(table)):
            rows(connection, sqlite.drop_table(table))
    made.close()
    rows(connection, ADDITIONS)
    receipt_tables.drop_names_below(connection)
