"""A model of a topic for tests of receipts: the stored messages, their positions, and how far a table has read.

model = TopicModel();  hub.answer = model.answer;  model.read();  hub.tables = [model.tables()]
"""

from __future__ import annotations

from fairlead_wire import message

NAME = "default/telemetry"


class TopicModel:
    """Answers batches with positions, as hub and messaging do together; duplicates are not stored."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, str, int], int] = {}
        """Positions by (epoch, stream, sequence)."""
        self.ids: dict[str, int] = {}
        self.reached = 0
        self.generation = 1
        self._next = 1

    def answer(self, stream: str, messages: list[message.UpstreamMessage]) -> message.Ack:
        """The ack of a batch of one topic and epoch."""
        fresh = [each for each in messages if (each.epoch, stream, each.sequence) not in self.places]
        first = self._next
        for each in fresh:
            self.places[each.epoch, stream, each.sequence] = self.ids[each.id] = self._next
            self._next += 1
        place = message.TopicPosition(
            index=0,
            service="s",
            generation=self.generation,
            first=position(first) if len(fresh) == len(messages) else "",
            newest=position(self._next - 1),
        )
        return message.Ack(parent_id=1, positions=[place])

    def read(self, upto: int | None = None) -> None:
        """Let the table read on, to the end or to this position."""
        self.reached = self._next - 1 if upto is None else upto

    def make_anew(self) -> None:
        """Delete and recreate the topic; positions continue."""
        self.generation += 1
        self.places.clear()
        self.ids.clear()

    def tables(self, *, batch: int = 1) -> message.TopicTables:
        """The hub's response about tables."""
        table = message.TableReached(
            reader="telemetry",
            table="/tables/telemetry",
            start="",
            position=position(self.reached),
            batch=batch,
            rowless=0,
        )
        return message.TopicTables(topic=NAME, service="s", generation=self.generation, readers=[table])

    def position_of(self, id: str) -> str:
        """The position of a message."""
        return position(self.ids[id])


def position(number: int) -> str:
    """A position in messaging's format; 0 is before the first."""
    return f"{number:020x}" + "0" * 20 if number else ""
