"""What the writer remembers of one topic between batches: all of it can be read again from the store."""

from __future__ import annotations

from collections import OrderedDict

from fairlead_messaging import keys, topics
from fairlead_messaging.kv import Batch, OrderedKV
from fairlead_messaging.message_id import POSITION_BYTES, Position, decode_position
from fairlead_messaging.producers import Epochs, Known
from fairlead_messaging.sequencer import Sequencer
from fairlead_messaging.topic import Topic

PRODUCERS_CACHED_MAX = 4096
"""Producers remembered per topic; others are read again when they publish."""


class TopicState:
    """Proposed state: it runs ahead of the store by the batch being built, and is dropped if that fails."""

    def __init__(self, kv: OrderedKV, topic: Topic | None) -> None:
        self._kv = kv
        self.topic = topic
        self.sequencer = Sequencer(self._highest(topic) if topic else None)
        self.message_prefix = keys.table(keys.MESSAGE, topic) if topic and topic.exists else b""
        self._known: OrderedDict[tuple[str, int], Known] = OrderedDict()
        self._epochs: OrderedDict[str, Epochs] = OrderedDict()

    def _highest(self, topic: Topic) -> Position | None:
        """The last position given out: as written with each batch, or of the newest row, whichever is later."""
        candidates = []
        written = self._kv.get(keys.high(topic))
        if written is not None:
            candidates.append(decode_position(written))
        if topic.exists:
            prefix = keys.table(keys.MESSAGE, topic)
            with self._kv.snapshot() as snapshot:
                newest = snapshot.last_below(prefix, keys.above(prefix))
            if newest is not None:
                candidates.append(decode_position(newest[0][-POSITION_BYTES:]))
        return max(candidates, default=None)

    def replace(self, topic: Topic) -> None:
        """Take over a created, updated or deleted record; positions go on from where they were."""
        if self.topic is None or topic.generation != self.topic.generation:
            self._known.clear()
            self._epochs.clear()
        self.topic = topic
        self.message_prefix = keys.table(keys.MESSAGE, topic) if topic.exists else b""

    def living(self, namespace: str, name: str) -> Topic:
        """Raises: NotFound when there is no living topic."""
        if self.topic is None or not self.topic.exists:
            raise topics.missing(namespace, name)
        return self.topic

    def known(self, topic: Topic, producer_id: str, epoch: int) -> Known:
        found = self._known.get((producer_id, epoch))
        if found is None:
            found = self._known[producer_id, epoch] = Known(self._kv.get(keys.producer(topic, producer_id, epoch)))
        else:
            self._known.move_to_end((producer_id, epoch))
        return found

    def epochs(self, topic: Topic, producer_id: str) -> Epochs:
        found = self._epochs.get(producer_id)
        if found is None:
            found = self._epochs[producer_id] = Epochs(self._kv.get(keys.fence(topic, producer_id)))
        else:
            self._epochs.move_to_end(producer_id)
        return found

    def write_high(self, batch: Batch) -> None:
        assert self.topic is not None
        batch.put(keys.high(self.topic), self.sequencer.last.encode())

    def trim(self) -> None:
        """Call only between batches: what is forgotten here must already be in the store."""
        while len(self._known) > PRODUCERS_CACHED_MAX:
            self._known.popitem(last=False)
        while len(self._epochs) > PRODUCERS_CACHED_MAX:
            self._epochs.popitem(last=False)
