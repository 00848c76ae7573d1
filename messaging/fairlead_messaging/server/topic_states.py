"""The state of the writer for the topics it wrote to: their logs and producers, read from the store once.

It is ahead of the store by the batch being built; if a batch fails all of it is discarded and read again.
"""

from __future__ import annotations

from typing import NamedTuple

from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server.log import topics
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.log.topic_log import TopicLog
from fairlead_messaging.server.producers import ProducerTable
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV

TOPICS_CACHED_MAX = 10_000
"""For how many topics the state is kept."""

Name = tuple[str, str]
"""Namespace and topic."""


class TopicState(NamedTuple):
    """The writer's state of one topic."""

    log: TopicLog
    producers: ProducerTable


class TopicStates:
    """States by name; call ``advance`` for those that got rows in the batch being built."""

    def __init__(self, kv: OrderedKV) -> None:
        self._kv = kv
        self._states: dict[Name, TopicState] = {}
        self._advanced: set[Name] = set()
        self._replaced: set[Name] = set()
        """Topics whose records are in the batch being built."""
        self._given_out: dict[Name, Position] = {}

    def of(self, name: Name) -> TopicState:
        """The state of a topic, from the store if it is not cached."""
        state = self._states.get(name)
        if state is None:
            log = TopicLog(self._kv, topics.record(self._kv, *name))
            given_out = self._given_out.pop(name, None)
            if given_out is not None:
                log.continue_after(given_out)
            state = self._states[name] = TopicState(log, ProducerTable(self._kv))
        return state

    def living(self, name: Name) -> TopicGeneration:
        """The existing topic.  Raises: NotFound."""
        return self.of(name).log.living(*name)

    def replace(self, topic: TopicGeneration, batch: Batch) -> TopicGeneration:
        """Write a topic's record, and use it from now on."""
        state = self.of((topic.namespace, topic.name))
        topics.write(batch, topic)
        self._replaced.add((topic.namespace, topic.name))
        if state.log.replace(topic):
            state.producers.clear()
        return topic

    def count(self, namespace: str) -> int:
        """How many topics a namespace has, according to the store and the batch being built."""
        with self._kv.snapshot() as snapshot:
            living = set(topics.names(snapshot, namespace))
        for changed in self._replaced:
            if changed[0] == namespace:
                topic = self.of(changed).log.topic
                if topic is not None and topic.exists:
                    living.add(changed[1])
                else:
                    living.discard(changed[1])
        return len(living)

    def advance(self, name: Name) -> None:
        """Note that the batch has rows of this topic, so that the end of its log is written too."""
        self._advanced.add(name)

    def close_batch(self, batch: Batch) -> None:
        """Add what is written once per topic and batch."""
        for name in self._advanced:
            self._states[name].log.write_end(batch)

    def applied(self) -> set[Name]:
        """Record that the batch is durable; returns the topics with new rows."""
        advanced, self._advanced = self._advanced, set()
        self._replaced.clear()
        for name in advanced:
            self._states[name].producers.trim()
        if len(self._states) > TOPICS_CACHED_MAX:
            self._states.clear()
        return advanced

    def forget(self) -> None:
        """Discard all state after a failed batch, but never assign a position twice."""
        for name in self._advanced:
            self._given_out[name] = self._states[name].log.sequencer.last
        self._advanced.clear()
        self._replaced.clear()
        self._states.clear()
