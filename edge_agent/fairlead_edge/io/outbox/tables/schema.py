"""The tables of the outbox, and how an older file becomes a present one.

    queues       one row per (endpoint, priority): next offset, checkpoint, counters, so that starting reads no backlog
    references_  one row per (queue, offset), clustered by offset and very narrow: the log itself
    runs         what the references of one request to one queue share: epoch, age, time to live, topic; ``inherits``
                 names the EdgeRoutes object whose time to live counts, and ``expires`` follows that (``inheritance``)
    names        the ids and authors of messages that wait or are remembered, numbered by queue and first offset
    segments     their bodies, end to end, compressed: flash wears by bytes written
    dead_letters what was refused for good, with its reason
    receipts     Idempotency-Keys and the answers they got
    attempts     messages that modules have, or had and did not acknowledge, by (queue, offset)
    departed     messages that left, in pages, for receipts; numbered by the bytes of the ring up to their end
    reached      how far tables have read each topic, as the hub said last
    refused      since when (the store's clock) dead letters of refused input are there, by their number
    inputs       messages from the cloud for modules, by id, until an hour after they expire (``inputs``)
    owner        one row: the node that accepted what is held
    clock, usage one row each: the store's clock on disk; the bytes that count against the limit, and commits so far

Rows that are sent or shown carry a checksum (``checksum``); in a file from before there were any, they are made once.

``PRAGMA user_version`` says which migration came last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from fairlead_edge.errors import StoreTooNew
from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.outbox.tables.receipts import names
from fairlead_edge.io.outbox.tables.upgrade import add_checksums
from fairlead_edge.io.sqlite import statements as sqlite
from fairlead_edge.io.sqlite.rows import rows

MIGRATIONS: Final = (
    """
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
        UNIQUE(endpoint, priority)
    );
    CREATE TABLE references_(
        queue INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        segment INTEGER NOT NULL,
        start INTEGER NOT NULL,
        size INTEGER NOT NULL,
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
        content BLOB NOT NULL
    );
    CREATE INDEX dead_letters_by_queue ON dead_letters(queue);
    CREATE TABLE receipts(key TEXT PRIMARY KEY, digest BLOB NOT NULL, answer BLOB NOT NULL, at REAL NOT NULL);
    CREATE INDEX receipts_by_time ON receipts(at);
    CREATE TABLE clock(
        id INTEGER PRIMARY KEY CHECK (id = 1),
        boot_id TEXT NOT NULL, boot_seconds REAL NOT NULL, wall_seconds REAL NOT NULL, age_seconds REAL NOT NULL
    );
    CREATE TABLE usage(id INTEGER PRIMARY KEY CHECK (id = 1), bytes INTEGER NOT NULL);
    INSERT INTO usage VALUES(1, 0);
    """,
    """
    ALTER TABLE queues ADD COLUMN damaged INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE runs ADD COLUMN checksum INTEGER;
    ALTER TABLE references_ ADD COLUMN checksum INTEGER;
    ALTER TABLE dead_letters ADD COLUMN checksum INTEGER;
    ALTER TABLE receipts ADD COLUMN checksum INTEGER;
    ALTER TABLE usage ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;
    """,
    "CREATE TABLE owner(id INTEGER PRIMARY KEY CHECK (id = 1), node TEXT NOT NULL)",
    """
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
    """,
    """
    ALTER TABLE runs ADD COLUMN inherits TEXT;
    ALTER TABLE runs ADD COLUMN expiry_checksum INTEGER;
    """,
)

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
"""Tables that a program of this version can do without: it goes on with such a file, so that going back is possible.
What it takes out of the log leaves its names behind; they go at an opening here (``names.drop_below``)."""
FORMER: Final = "DROP TABLE IF EXISTS marks; DROP TABLE IF EXISTS departures"
"""Of programs that were never released, which kept the same in another form: receipts of before are not known."""

_CHECKSUMS: Final = 2
"""The version from which on rows have checksums."""


def model(version: int, *, additions: bool = True) -> apsw.Connection | None:
    """An empty outbox of this version, in memory; None for one that this program does not know."""
    if not 0 <= version <= len(MIGRATIONS):
        return None
    connection = apsw.Connection(":memory:")
    for migration in MIGRATIONS[:version]:
        rows(connection, migration)
    if additions and version == len(MIGRATIONS):
        rows(connection, ADDITIONS)
    return connection


def migrate(connection: apsw.Connection) -> None:
    """Bring the file to the present version.  Raises ``StoreTooNew``; runs in the caller's transaction."""
    found: int = rows(connection, sqlite.USER_VERSION)[0][0]
    if found > len(MIGRATIONS):
        raise StoreTooNew(f"the outbox has version {found}, this program knows up to {len(MIGRATIONS)}")
    for migration in MIGRATIONS[found:]:
        rows(connection, migration)
    if 0 < found < _CHECKSUMS:
        add_checksums(connection)
    _add(connection)
    rows(connection, sqlite.set_user_version(len(MIGRATIONS)))


def _add(connection: apsw.Connection) -> None:
    """Make the additions; one of another form, of a program that was never released or of a disk, begins anew."""
    rows(connection, FORMER)
    made = apsw.Connection(":memory:")
    rows(made, ADDITIONS)
    for (table,) in rows(made, sqlite.TABLES):
        try:
            found = rows(connection, sqlite.table_info(table))
        except UnicodeDecodeError:  # a disk changed what a column is called
            found = [()]
        if found and found != rows(made, sqlite.table_info(table)):
            rows(connection, sqlite.drop_table(table))
    made.close()
    rows(connection, ADDITIONS)
    names.drop_below(connection)


def upgrade(path: Path, access: FileAccess = PLAIN) -> None:
    """Bring an existing older file to the present version before it is looked through.  Raises as ``migrate``."""
    if not path.exists():
        return
    connection = access.connect(path)
    try:
        if 0 < rows(connection, sqlite.USER_VERSION)[0][0] != len(MIGRATIONS):
            connection.execute(sqlite.BEGIN_IMMEDIATE)
            migrate(connection)
            connection.execute(sqlite.COMMIT)
    finally:
        connection.close()
