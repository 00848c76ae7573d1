"""Named readers: how far each has durably read, so that its lag is visible.  Positions have no other effect."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from fairlead_messaging.api.errors import Gone
from fairlead_messaging.api.message_id import FIRST, POSITION_BYTES, MessageId, position_of, timestamp_of
from fairlead_messaging.api.responses import Reader, Table
from fairlead_messaging.server.commands import RecordReaderPosition
from fairlead_messaging.server.log import bulk, keys, running_totals, topic
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV, Snapshot


class _Position(msgspec.Struct):
    position: str
    updated_ms: int
    passed: int | None = None
    """How many messages the topic ever had up to there, including rolled-back ones."""
    fills: Table | None = None
    """What the reader reported about the table that it fills."""


READERS_MAX = 1000
"""Readers of one topic, who choose their names freely; beyond this the least recently noted one is forgotten."""


def record(kv: OrderedKV, living: TopicGeneration, command: RecordReaderPosition, batch: Batch, now_ms: int) -> None:
    """Record a position.  Raises: Refused for an invalid name, Conflict for another generation."""
    topic.check_name("reader", command.reader)
    bulk.check_generation(living, command.generation)
    key = keys.reader(living, command.reader)
    before = batch.latest(key, kv)
    if before is None:
        _make_room(kv, living, batch)
    position = _Position(bulk.shown(command.position), now_ms, command.passed, _covered(command.table, before))
    batch.put(key, msgspec.json.encode(position))


def _covered(noted: Table | None, before: bytes | None) -> Table | None:
    """What this note and the earlier notes of the same application cover."""
    if noted is None or before is None:
        return noted
    earlier = msgspec.json.decode(before, type=_Position).fills
    if earlier is None or (earlier.application, earlier.name) != (noted.application, noted.name):
        return noted
    return msgspec.structs.replace(noted, start=min(noted.start, earlier.start))


def _make_room(kv: OrderedKV, living: TopicGeneration, batch: Batch) -> None:
    """Make room for one more reader."""
    prefix = keys.table(keys.READER, living)
    with kv.snapshot() as snapshot:
        found = list(snapshot.scan(prefix, keys.above(prefix)))
    if len(found) >= READERS_MAX:
        oldest = sorted(found, key=lambda row: msgspec.json.decode(row[1], type=_Position).updated_ms)
        for key, _ in oldest[: len(found) - READERS_MAX + 1]:
            batch.delete(key)


def counted(snapshot: Snapshot, living: TopicGeneration, command: RecordReaderPosition) -> RecordReaderPosition:
    """The command with the number of messages up to its position, from which later losses can be counted.

    Without it if that is not known exactly.  Raises: Conflict as ``record``.
    """
    bulk.check_generation(living, command.generation)
    # Uncommitted messages were counted when they were stored, so no commit or rollback changes the number.
    if not FIRST < command.position <= bulk.last_stable(snapshot, living, None):
        return command
    total = running_totals.exactly(snapshot, living, command.position)
    return replace(command, generation=living.generation, passed=total.rows if total is not None else None)


def check_start(snapshot: Snapshot, living: TopicGeneration, after: MessageId, now_ms: int) -> None:
    """Raises: Gone if messages after this start have expired unread; a start at the beginning misses nothing.

    Their number is exact if a reader noted this position or its neighbours still exist; else it is an upper bound.
    """
    expired = bulk.last_expired(snapshot, living, now_ms)
    if after == FIRST or after[:POSITION_BYTES] >= expired[:POSITION_BYTES]:
        return
    first = bulk.oldest(snapshot, living, now_ms)
    end, start = running_totals.exactly(snapshot, living, first), running_totals.exactly(snapshot, living, after)
    passed = _noted(snapshot, living, after) if start is None else start.rows
    exact = end is not None and passed is not None
    if passed is None:
        passed = running_totals.upto(snapshot, living, position_of(after)).rows
    raise Gone(
        "messages after this position have expired", code="expired", oldest=bulk.shown(first),
        expired=max(0, (end or running_totals.upto(snapshot, living, position_of(first))).rows - passed), exact=exact,
    )  # fmt: skip


def _noted(snapshot: Snapshot, living: TopicGeneration, after: MessageId) -> int | None:
    """How many messages the topic ever had up to here, if a reader noted this position."""
    prefix, shown = keys.table(keys.READER, living), bulk.shown(after)
    records = (msgspec.json.decode(raw, type=_Position) for _, raw in snapshot.scan(prefix, keys.above(prefix)))
    return next((each.passed for each in records if each.position == shown and each.passed is not None), None)


def every(snapshot: Snapshot, living: TopicGeneration, now_ms: int) -> list[Reader]:
    """The readers of this generation, sorted by name."""
    prefix = keys.table(keys.READER, living)
    everything = running_totals.everything(snapshot, living)
    found = []
    for key, raw in snapshot.scan(prefix, keys.above(prefix)):
        record = msgspec.json.decode(raw, type=_Position)
        after = max(MessageId(bytes.fromhex(record.position)), bulk.last_expired(snapshot, living, now_ms))
        found.append(
            Reader(
                name=key[len(prefix) :].decode(),
                position=record.position,
                updated_ms=record.updated_ms,
                lag_messages=everything.minus(running_totals.upto(snapshot, living, position_of(after))).rows,
                lag_seconds=_age_of_next(snapshot, living, after, now_ms),
                table=record.fills,
            )
        )
    return found


def _age_of_next(snapshot: Snapshot, living: TopicGeneration, after: MessageId, now_ms: int) -> float:
    prefix = keys.table(keys.MESSAGE, living)
    for key, _ in snapshot.scan(prefix + after[:POSITION_BYTES] + b"\x00", keys.above(prefix)):
        return max(0.0, (now_ms - timestamp_of(key[-POSITION_BYTES:])) / 1000)
    return 0.0
