"""Positions of a topic: strictly increasing whatever the clock does.

timestamp = max(clock, last): a clock that steps back, a restart within one millisecond and more than
65536 messages in a millisecond all go on counting from the last position given out.
"""

from __future__ import annotations

from fairlead_messaging.api.message_id import POSITION_BYTES, SEQUENCE_MAX, Position, PositionBytes

_SEQUENCE_BITS = SEQUENCE_MAX.bit_length()


class Sequencer:
    """Gives out positions; one per topic, over all its generations.

    A position is one integer here, the sequence its low bits: counting past the last sequence of a millisecond
    reaches the first of the next by itself.
    """

    __slots__ = ("_last",)

    def __init__(self, last: Position | None) -> None:
        self._last = last.timestamp << _SEQUENCE_BITS | last.sequence if last is not None else SEQUENCE_MAX

    def next(self, now_ms: int) -> Position:
        """The next position; its timestamp is the clock's or the last one given out, whichever is later."""
        self._last = max(now_ms << _SEQUENCE_BITS, self._last + 1)
        return self.last

    def take(self, count: int, now_ms: int) -> list[PositionBytes]:
        """The next positions, encoded; at least one."""
        first = max(now_ms << _SEQUENCE_BITS, self._last + 1)
        self._last = first + count - 1
        return [PositionBytes(number.to_bytes(POSITION_BYTES, "big")) for number in range(first, first + count)]

    @property
    def last(self) -> Position:
        return Position(self._last >> _SEQUENCE_BITS, self._last & SEQUENCE_MAX)
