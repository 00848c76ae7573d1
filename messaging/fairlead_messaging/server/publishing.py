"""Publish: messages become rows at the next positions, together with what is now known of their producer."""

from __future__ import annotations

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server.commands import Message, Publish, Published
from fairlead_messaging.server.log import keys, rows
from fairlead_messaging.server.log.kv import Batch
from fairlead_messaging.server.log.topic import Topic
from fairlead_messaging.server.topic_state import TopicState


def publish(state: TopicState, command: Publish, batch: Batch, now_ms: int) -> Published:
    """Raises: NotFound, Refused, Conflict (fenced); nothing was changed then."""
    topic = state.living(command.namespace, command.name)
    if topic.transactional == "required":
        raise Refused("this topic takes only transactional messages", code="transaction_required")
    if command.producer is not None:
        return _publish_once(state, topic, command, batch, now_ms)
    first, last = append(state, command.messages, batch, now_ms)
    return Published(first=first, last=last)


def append(
    state: TopicState, messages: list[Message], batch: Batch, now_ms: int, pointer: int = 0
) -> tuple[Position | None, Position | None]:
    """Rows for the messages, contiguous and in order; returns the first and last position."""
    prefix, sequencer = state.message_prefix, state.sequencer
    first: Position | None = None
    position: Position | None = None
    for payload, ttl_seconds in messages:
        position = sequencer.next(now_ms)
        first = first or position
        place = position.encode()
        batch.put(prefix + place, rows.encode(payload, ttl_seconds, pointer))
        state.count(place, 1, len(payload), batch)
        if ttl_seconds:
            state.index_expiry(position, ttl_seconds, batch)
    return first, position


def _publish_once(state: TopicState, topic: Topic, command: Publish, batch: Batch, now_ms: int) -> Published:
    """Store what is not known yet; the intervals are written in the same batch as the messages."""
    producer = command.producer
    assert producer is not None
    epochs = state.epochs(topic, producer.id)
    epochs.check(producer)
    known = state.known(topic, producer.id, producer.epoch)
    fresh, repeated = known.split(producer.sequences)
    first, last = append(state, [command.messages[index] for index in fresh], batch, now_ms)
    if fresh:
        known.add([producer.sequences[index] for index in fresh], now_ms, batch)
    if epochs.note(producer):
        batch.put(keys.fence(topic, producer.id), epochs.encode())
    return Published(
        first=first,
        last=last,
        stored=tuple(producer.sequences[index] for index in fresh),
        known=tuple(producer.sequences[index] for index in repeated),
    )
