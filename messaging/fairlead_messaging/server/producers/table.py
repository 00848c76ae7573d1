"""The producers of one topic that the writer has at hand; others are read again when they publish."""

from __future__ import annotations

from collections import OrderedDict

from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.producers.producer import Epochs
from fairlead_messaging.server.producers.sequences import KnownSequences
from fairlead_messaging.server.store.ordered_kv import OrderedKV

PRODUCERS_CACHED_MAX = 4096


class ProducerTable:
    """It runs ahead of the store by the batch being built, and is dropped when that fails."""

    def __init__(self, kv: OrderedKV) -> None:
        self._kv = kv
        self._known: OrderedDict[tuple[str, int], KnownSequences] = OrderedDict()
        self._asked: list[KnownSequences] = []
        """Since the last ``trim``."""
        self._epochs: OrderedDict[str, Epochs] = OrderedDict()

    def clear(self) -> None:
        """The topic is of another generation, which knows none of them."""
        self._known.clear()
        self._epochs.clear()

    def known(self, topic: TopicGeneration, producer_id: str, epoch: int) -> KnownSequences:
        found = self._known.get((producer_id, epoch))
        if found is None:
            found = self._known[producer_id, epoch] = KnownSequences(self._kv, keys.producer(topic, producer_id, epoch))
        else:
            self._known.move_to_end((producer_id, epoch))
        self._asked.append(found)
        return found

    def epochs(self, topic: TopicGeneration, producer_id: str) -> Epochs:
        found = self._epochs.get(producer_id)
        if found is None:
            found = self._epochs[producer_id] = Epochs(self._kv.get(keys.fence(topic, producer_id)))
        else:
            self._epochs.move_to_end(producer_id)
        return found

    def trim(self) -> None:
        """Call only between batches: what is forgotten here must already be in the store."""
        for known in self._asked:
            known.trim()
        self._asked.clear()
        while len(self._known) > PRODUCERS_CACHED_MAX:
            self._known.popitem(last=False)
        while len(self._epochs) > PRODUCERS_CACHED_MAX:
            self._epochs.popitem(last=False)
