"""Running totals: how many messages and bytes a topic ever had, so that counting a range needs no scan.

After every ``MARK_ROWS`` messages or ``MARK_BYTES`` bytes the total up to a row (inclusive) is written.  The size of a
range is the difference of two totals, and a short scan at each end makes it exact.  Totals count what was stored,
including rolled-back messages and those past their own time to live.
"""

from __future__ import annotations

from typing import NamedTuple

from fairlead_messaging.api.message_id import (
    FIRST,
    LAST,
    NO_PAYLOAD,
    POSITION_BYTES,
    MessageId,
    Position,
    PositionBytes,
    decode_position,
    last_of,
    position_of,
)
from fairlead_messaging.server.log import keys, rows
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Snapshot

MARK_ROWS = 1024
MARK_BYTES = 1024 * 1024
NUMBER_BYTES = 8


class RunningTotal(NamedTuple):
    """A running total."""

    rows: int = 0
    size: int = 0

    def plus(self, count: int, size: int) -> RunningTotal:
        return RunningTotal(self.rows + count, self.size + size)

    def minus(self, other: RunningTotal) -> RunningTotal:
        return RunningTotal(max(0, self.rows - other.rows), max(0, self.size - other.size))

    def reaches_mark(self, marked: RunningTotal) -> bool:
        return self.rows - marked.rows >= MARK_ROWS or self.size - marked.size >= MARK_BYTES

    def encode(self) -> bytes:
        return self.rows.to_bytes(NUMBER_BYTES, "big") + self.size.to_bytes(NUMBER_BYTES, "big")


def decode(raw: bytes) -> RunningTotal:
    return RunningTotal(
        int.from_bytes(raw[:NUMBER_BYTES], "big"), int.from_bytes(raw[NUMBER_BYTES : 2 * NUMBER_BYTES], "big")
    )


class LogEnd(NamedTuple):
    """Written with every batch: the last assigned position, and the total of the current generation."""

    position: Position
    generation: int
    total: RunningTotal

    def encode(self) -> bytes:
        return self.position.encode() + self.generation.to_bytes(4, "big") + self.total.encode()


def decode_log_end(raw: bytes) -> LogEnd:
    return LogEnd(
        decode_position(raw),
        int.from_bytes(raw[POSITION_BYTES : POSITION_BYTES + 4], "big"),
        decode(raw[POSITION_BYTES + 4 :]),
    )


def row_size(
    snapshot: Snapshot, topic: TopicGeneration, value: bytes, after: bytes = b"", upto: bytes = b""
) -> RunningTotal:
    """What a message row adds: one message, or the payload rows it refers to.

    ``after`` (exclusive) and ``upto`` (inclusive) are positions of payload rows, for a range that begins or ends
    inside of a reference.
    """
    row = rows.decode(value)
    if not row.is_reference:
        return RunningTotal(1, len(row.payload))
    first, last = max(row.payload[:POSITION_BYTES], after), row.payload[POSITION_BYTES:]
    if upto:
        last = min(last, upto)
    total = RunningTotal()
    if first < last:
        prefix = keys.payloads(topic, abs(row.pointer))
        for _, stored in snapshot.scan(prefix + first + b"\x00", prefix + last + b"\x00"):
            total = total.plus(1, len(rows.decode(stored).payload))
    return total


def last_mark(
    snapshot: Snapshot, topic: TopicGeneration, position: PositionBytes
) -> tuple[PositionBytes, RunningTotal]:
    """The last mark at or below a position (10 bytes), and its total; the beginning if there is none."""
    prefix = keys.table(keys.MARK, topic)
    found = snapshot.last_below(prefix, prefix + position + b"\x00")
    return (keys.position(found[0]), decode(found[1])) if found else (position_of(FIRST), RunningTotal())


def upto(snapshot: Snapshot, topic: TopicGeneration, position: PositionBytes) -> RunningTotal:
    """The total of all rows at or below a position."""
    marked, total = last_mark(snapshot, topic, position)
    prefix = keys.table(keys.MESSAGE, topic)
    for _, value in snapshot.scan(prefix + marked + b"\x00", prefix + position + b"\x00"):
        total = total.plus(*row_size(snapshot, topic, value))
    return total


def passed(snapshot: Snapshot, topic: TopicGeneration, message_id: MessageId) -> int:
    """How many messages there ever were up to the id: never too many, and exact at the last assigned position.

    In between, messages after the last mark that were removed for their own time to live are missing.
    """
    raw = snapshot.get(keys.log_end(topic))
    if raw is not None and decode_log_end(raw).position.encode() <= message_id[:POSITION_BYTES]:
        return everything(snapshot, topic).rows
    return upto(snapshot, topic, position_of(message_id)).rows


def exactly(snapshot: Snapshot, topic: TopicGeneration, message_id: MessageId) -> RunningTotal | None:
    """As ``upto``, but None inside a reference, or if rows that it would have to count have been removed."""
    if message_id[POSITION_BYTES:] not in (NO_PAYLOAD, LAST[POSITION_BYTES:]):
        return None
    position = position_of(message_id)
    marked, total = last_mark(snapshot, topic, position)
    if marked == position:
        return total
    marks, prefix = keys.table(keys.MARK, topic), keys.table(keys.MESSAGE, topic)
    following = next(snapshot.scan(marks + position + b"\x00", keys.above(marks)), None)
    end = following[0][-POSITION_BYTES:] if following is not None else LAST[:POSITION_BYTES]
    here, all_of_it = total, total
    for key, value in snapshot.scan(prefix + marked + b"\x00", prefix + end + b"\x00"):
        weight = row_size(snapshot, topic, value)
        all_of_it = all_of_it.plus(*weight)
        if key[-POSITION_BYTES:] <= position:
            here = here.plus(*weight)
    whole = decode(following[1]) if following is not None else everything(snapshot, topic)
    return here if all_of_it == whole else None


def everything(snapshot: Snapshot, topic: TopicGeneration) -> RunningTotal:
    """The total of this generation."""
    raw = snapshot.get(keys.log_end(topic))
    if raw is None:
        return RunningTotal()
    end = decode_log_end(raw)
    return end.total if end.generation == topic.generation else RunningTotal()


def split_at(
    snapshot: Snapshot, topic: TopicGeneration, after: MessageId, upto_id: MessageId, count: int, size: int
) -> tuple[MessageId, RunningTotal]:
    """The furthest id within after < id ≤ upto such that the range has at most ``count`` messages and ``size`` bytes.

    At least one row is taken.  Returns the id (``after`` if the range is empty) and the total of the range.
    """
    prefix, marks = keys.table(keys.MESSAGE, topic), keys.table(keys.MARK, topic)
    end = prefix + upto_id[:POSITION_BYTES] + b"\x00"
    reached, taken = after, RunningTotal()

    def walk(low: bytes, high: bytes) -> bool:
        """Go row by row; False once the next row would exceed the limits."""
        nonlocal reached, taken
        for key, value in snapshot.scan(low, high):
            position = key[-POSITION_BYTES:]
            begins_here = position == after[:POSITION_BYTES]
            if begins_here and not rows.decode(value).is_reference:
                continue
            ends_here = position == upto_id[:POSITION_BYTES]
            weight = row_size(
                snapshot, topic, value,
                after[POSITION_BYTES:] if begins_here else b"", upto_id[POSITION_BYTES:] if ends_here else b"",
            )  # fmt: skip
            if begins_here and not weight.rows:
                continue  # the whole row lies before the range
            grown = taken.plus(*weight)
            if taken.rows and (grown.rows > count or grown.size > size):
                return False
            reached, taken = last_of(position), grown
        return True

    at, at_total = None, RunningTotal()
    for key, raw in snapshot.scan(marks + after[:POSITION_BYTES], marks + upto_id[:POSITION_BYTES] + b"\x00"):
        position, total = key[-POSITION_BYTES:], decode(raw)
        if at is None:
            if not walk(prefix + after[:POSITION_BYTES], prefix + position + b"\x00"):
                return min(reached, upto_id), taken
        else:
            grown = taken.plus(*total.minus(at_total))
            if grown.rows > count or grown.size > size:
                break
            reached, taken = last_of(position), grown
        at, at_total = position, total
    walk(prefix + at + b"\x00" if at is not None else prefix + after[:POSITION_BYTES], end)
    return min(reached, upto_id), taken
