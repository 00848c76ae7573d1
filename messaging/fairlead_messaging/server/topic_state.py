"""What the writer remembers of one topic between batches: all of it can be read again from the store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate

from fairlead_messaging.api.message_id import LAST, POSITION_BYTES, Position, decode_position
from fairlead_messaging.server.log import keys, running_totals, topics
from fairlead_messaging.server.log.running_totals import MARK_BYTES, MARK_ROWS, LogEnd, RunningTotal
from fairlead_messaging.server.log.sequencer import Sequencer
from fairlead_messaging.server.log.topic import Topic
from fairlead_messaging.server.producers.producer import Epochs
from fairlead_messaging.server.producers.sequences import Known
from fairlead_messaging.server.store.batch import Batch
from fairlead_messaging.server.store.ordered_kv import OrderedKV

PRODUCERS_CACHED_MAX = 4096
"""Producers remembered per topic; others are read again when they publish."""


class TopicState:
    """Proposed state: it runs ahead of the store by the batch being built, and is dropped if that fails."""

    def __init__(self, kv: OrderedKV, topic: Topic | None) -> None:
        self._kv = kv
        self.topic = topic
        self.sequencer = Sequencer(None)
        self.total = self.marked = RunningTotal()
        self.message_prefix = self._mark_prefix = self._expiry_prefix = b""
        if topic is not None:
            self._prepare(topic)
            self._recover(topic)
        self._known: OrderedDict[tuple[str, int], Known] = OrderedDict()
        self._asked: list[Known] = []
        """Since the last ``trim``."""
        self._epochs: OrderedDict[str, Epochs] = OrderedDict()

    def _prepare(self, topic: Topic) -> None:
        if topic.exists:
            self.message_prefix = keys.table(keys.MESSAGE, topic)
            self._mark_prefix = keys.table(keys.MARK, topic)
            self._expiry_prefix = keys.table(keys.EXPIRY, topic)

    def _recover(self, topic: Topic) -> None:
        """Go on after the last position given out: as written with each batch, or the newest row's, if later."""
        candidates: list[Position] = []
        written = self._kv.get(keys.log_end(topic))
        if written is not None:
            high = running_totals.decode_log_end(written)
            candidates.append(high.position)
            if high.generation == topic.generation:
                self.total = high.total
        if topic.exists:
            with self._kv.snapshot() as snapshot:
                newest = snapshot.last_below(self.message_prefix, keys.above(self.message_prefix))
                self.marked = running_totals.last_mark(snapshot, topic, LAST[:POSITION_BYTES])[1]
            if newest is not None:
                candidates.append(decode_position(newest[0][-POSITION_BYTES:]))
        self.sequencer = Sequencer(max(candidates, default=None))

    def index_expiry(self, position: Position, ttl_seconds: int, batch: Batch) -> None:
        """Let cleanup find a message that expires before its topic's ttl would remove it."""
        expires_ms = position.timestamp + ttl_seconds * 1000
        batch.put(self._expiry_prefix + expires_ms.to_bytes(8, "big") + position.encode(), b"")

    def count(self, position: bytes, count: int, size: int, batch: Batch) -> None:
        """Take a stored row into the running total; a mark is written now and then."""
        self.total = self.total.plus(count, size)
        if self.total.reaches_mark(self.marked):
            self.marked = self.total
            batch.put(self._mark_prefix + position, self.total.encode())

    def count_all(self, positions: Sequence[bytes], sizes: Sequence[int], batch: Batch) -> None:
        """As ``count`` for each stored row, with as few steps as there are marks."""
        start = 0
        while start < len(sizes):
            rows_left = max(1, MARK_ROWS - (self.total.rows - self.marked.rows))
            run = sizes[start : start + rows_left]
            bytes_left = MARK_BYTES - (self.total.size - self.marked.size)
            if sum(run) >= bytes_left:
                run = run[: next(count for count, size in enumerate(accumulate(run), 1) if size >= bytes_left)]
            start += len(run)
            self.count(positions[start - 1], len(run), sum(run), batch)

    def replace(self, topic: Topic) -> None:
        """Take over a created, updated or deleted record; positions go on from where they were."""
        if self.topic is None or topic.generation != self.topic.generation:
            self._known.clear()
            self._epochs.clear()
            self.total = self.marked = RunningTotal()
        self.topic = topic
        self._prepare(topic)

    def living(self, namespace: str, name: str) -> Topic:
        """Raises: NotFound when there is no living topic."""
        if self.topic is None or not self.topic.exists:
            raise topics.missing(namespace, name)
        return self.topic

    def known(self, topic: Topic, producer_id: str, epoch: int) -> Known:
        found = self._known.get((producer_id, epoch))
        if found is None:
            found = self._known[producer_id, epoch] = Known(self._kv, keys.producer(topic, producer_id, epoch))
        else:
            self._known.move_to_end((producer_id, epoch))
        self._asked.append(found)
        return found

    def epochs(self, topic: Topic, producer_id: str) -> Epochs:
        found = self._epochs.get(producer_id)
        if found is None:
            found = self._epochs[producer_id] = Epochs(self._kv.get(keys.fence(topic, producer_id)))
        else:
            self._epochs.move_to_end(producer_id)
        return found

    def write_log_end(self, batch: Batch) -> None:
        assert self.topic is not None
        high = LogEnd(self.sequencer.last, abs(self.topic.generation), self.total)
        batch.put(keys.log_end(self.topic), high.encode())

    def trim(self) -> None:
        """Call only between batches: what is forgotten here must already be in the store."""
        for known in self._asked:
            known.trim()
        self._asked.clear()
        while len(self._known) > PRODUCERS_CACHED_MAX:
            self._known.popitem(last=False)
        while len(self._epochs) > PRODUCERS_CACHED_MAX:
            self._epochs.popitem(last=False)
