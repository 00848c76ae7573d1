"""The tables of the keyspace.  A shard is what one instance owns; there is one so far, and all is keyed by it."""

from __future__ import annotations

from typing import Final

SHARD: Final = "0"
LAYOUT: Final = 1
"""Of these tables; another number in the journal is refused."""
SLOTS: Final = 32
"""Records the journal holds: so many batches may be durable and not yet written where they are read."""
PIECE_BYTES: Final = 256 * 1024
"""Larger values lie in several rows; one message to a node stays far below what it takes."""

TABLES: Final = {
    # One partition of bounded size a shard. Written by conditional batches alone.
    "journal": """CREATE TABLE IF NOT EXISTS journal (
        shard text, layout int static, epoch bigint static, owner text static, owner_name text static,
        beat bigint static, committed bigint static, applied bigint static,
        slot int, number bigint, written_by bigint, parts int, record blob,
        PRIMARY KEY (shard, slot)) WITH comment = 'fairlead messaging: the newest batches, and who may write'""",
    # A record too large for one conditional write; deleted when it was applied.
    "journal_parts": """CREATE TABLE IF NOT EXISTS journal_parts (
        shard text, epoch bigint, number bigint, part int, record blob,
        PRIMARY KEY ((shard, epoch, number), part)) WITH comment = 'fairlead messaging: large batches'""",
    # Which partitions `rows` has.
    "buckets": """CREATE TABLE IF NOT EXISTS buckets (
        shard text, low blob, bytes bigint,
        PRIMARY KEY (shard, low)) WITH comment = 'fairlead messaging: partitions of rows by their lowest key'""",
    # Everything. Written with the number of the batch as its time.
    "rows": """CREATE TABLE IF NOT EXISTS rows (
        shard text, bucket blob, key blob, piece int, pieces int, value blob,
        PRIMARY KEY ((shard, bucket), key, piece)) WITH comment = 'fairlead messaging: keys and values in order'""",
}
