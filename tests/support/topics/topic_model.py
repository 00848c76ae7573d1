"""A topic as messaging keeps it, for tests of receipts: what is stored, where, and how far a table has read it.

model = TopicModel();  hub.answer = model.answer;  model.read();  hub.tables = [model.tables()]
"""

from __future__ import annotations

from fairlead_wire import message

NAME = "default/telemetry"


class TopicModel:
    """Answers batches with positions, as hub and messaging do together; what is known already is not stored again."""

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
        """The table reads on, to the end or so far."""
        self.reached = self._next - 1 if upto is None else upto

    def make_anew(self) -> None:
        """The topic is deleted and made again; positions go on."""
        self.generation += 1
        self.places.clear()
        self.ids.clear()

    def tables(self, *, batch: int = 1) -> message.TopicTables:
        """What the hub says."""
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
        """Where a message stands."""
        return position(self.ids[id])


def position(number: int) -> str:
    """As messaging writes it; 0 is before the first."""
    return f"{number:020x}" + "0" * 20 if number else ""
