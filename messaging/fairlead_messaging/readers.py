"""Named readers: how far each has durably read, so that their lag can be seen.  Positions move nothing."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from fairlead_messaging import bulk, keys, tally, topic
from fairlead_messaging.commands import NoteReader
from fairlead_messaging.kv import Batch, Snapshot
from fairlead_messaging.message_id import POSITION_BYTES, timestamp_of
from fairlead_messaging.topic import Topic


class _Record(msgspec.Struct):
    position: str
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """``lag_messages`` counts what was stored after its position; ``lag_seconds`` is the age of the first of these."""

    name: str
    position: str
    updated_ms: int
    lag_messages: int
    lag_seconds: float


def note(living: Topic, command: NoteReader, batch: Batch, now_ms: int) -> None:
    """Raises: Refused for a bad name, Conflict when the generation is another."""
    topic.check_name("reader", command.reader)
    bulk.check_generation(living, command.generation)
    record = _Record(bulk.shown(command.position), now_ms)
    batch.put(keys.reader(living, command.reader), msgspec.json.encode(record))


def every(snapshot: Snapshot, living: Topic, now_ms: int) -> list[Reader]:
    """Readers of this generation, by name."""
    prefix = keys.table(keys.READER, living)
    everything = tally.everything(snapshot, living)
    found = []
    for key, raw in snapshot.scan(prefix, keys.above(prefix)):
        record = msgspec.json.decode(raw, type=_Record)
        after = max(bytes.fromhex(record.position), bulk.last_expired(snapshot, living, now_ms))
        found.append(
            Reader(
                name=key[len(prefix) :].decode(),
                position=record.position,
                updated_ms=record.updated_ms,
                lag_messages=everything.minus(tally.upto(snapshot, living, after)).rows,
                lag_seconds=_age_of_next(snapshot, living, after, now_ms),
            )
        )
    return found


def _age_of_next(snapshot: Snapshot, living: Topic, after: bytes, now_ms: int) -> float:
    prefix = keys.table(keys.MESSAGE, living)
    for key, _ in snapshot.scan(prefix + after[:POSITION_BYTES] + b"\x00", keys.above(prefix)):
        return max(0.0, (now_ms - timestamp_of(key[-POSITION_BYTES:])) / 1000)
    return 0.0
