"""Positions of a topic: strictly increasing whatever the clock does.

timestamp = max(clock, last): a clock that steps back, a restart within one millisecond and more than
65536 messages in a millisecond all go on counting from the last position given out.
"""

from __future__ import annotations

from fairlead_messaging.api.message_id import SEQUENCE_MAX, Position


class Sequencer:
    """Gives out positions; one per topic, over all its generations."""

    __slots__ = ("sequence", "timestamp")

    def __init__(self, last: Position | None) -> None:
        self.timestamp, self.sequence = last if last is not None else (0, SEQUENCE_MAX)

    def next(self, now_ms: int) -> Position:
        """The next position; its timestamp is the clock's or the last one given out, whichever is later."""
        if now_ms > self.timestamp:
            self.timestamp, self.sequence = now_ms, 0
        elif self.sequence < SEQUENCE_MAX:
            self.sequence += 1
        else:
            self.timestamp, self.sequence = self.timestamp + 1, 0
        return Position(self.timestamp, self.sequence)

    @property
    def last(self) -> Position:
        return Position(self.timestamp, self.sequence)
