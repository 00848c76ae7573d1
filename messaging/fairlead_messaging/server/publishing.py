"""Publish without a transaction: rows in the log, together with what is now known of their producer."""

from __future__ import annotations

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.server.commands import Publish, PublishedAt
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.log.topic_log import TopicLog
from fairlead_messaging.server.producers.table import ProducerTable
from fairlead_messaging.server.store.batch import Batch


def publish(log: TopicLog, producers: ProducerTable, command: Publish, batch: Batch, now_ms: int) -> PublishedAt:
    """Raises: NotFound, Refused, Conflict (fenced); nothing was changed then."""
    topic = log.living(command.namespace, command.name)
    if topic.transactional == "required":
        raise Refused("this topic takes only transactional messages", code="transaction_required")
    if command.producer is not None:
        return _publish_once(log, producers, topic, command, batch, now_ms)
    first, last = log.append(command.messages, batch, now_ms)
    return PublishedAt(first=first, last=last)


def _publish_once(
    log: TopicLog, producers: ProducerTable, topic: TopicGeneration, command: Publish, batch: Batch, now_ms: int
) -> PublishedAt:
    """Store what is not known yet; the intervals are written in the same batch as the messages."""
    producer = command.producer
    assert producer is not None
    epochs = producers.epochs(topic, producer.id)
    epochs.check(producer)
    known = producers.known(topic, producer.id, producer.epoch)
    fresh, repeated = known.split(producer.sequences)
    first, last = log.append([command.messages[index] for index in fresh], batch, now_ms)
    if fresh:
        known.add([producer.sequences[index] for index in fresh], now_ms, batch)
    if epochs.note(producer):
        batch.put(keys.fence(topic, producer.id), epochs.encode())
    return PublishedAt(
        first=first,
        last=last,
        stored=tuple(producer.sequences[index] for index in fresh),
        known=tuple(producer.sequences[index] for index in repeated),
        generation=topic.generation,
        newest=log.sequencer.last,
    )
