"""Publish: messages become rows at the next positions, together with what is now known of their producer."""

from __future__ import annotations

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.api.message_id import Position, decode_position
from fairlead_messaging.server.commands import Message, Messages, Publish, Published, columns
from fairlead_messaging.server.log import keys, rows
from fairlead_messaging.server.log.topic import Topic
from fairlead_messaging.server.store.batch import Batch
from fairlead_messaging.server.topic_state import TopicState

PIECE_MESSAGES = 4096
"""Turned into rows at a time: a single step over a million would hold the interpreter, and all other requests."""


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
    state: TopicState, messages: Messages, batch: Batch, now_ms: int, pointer: int = 0
) -> tuple[Position | None, Position | None]:
    """Rows for the messages, contiguous and in order; returns the first and last position.

    Many go column by column, because others wait: a row at a time takes five times as long.
    """
    if not messages:
        return None, None
    if len(messages) == 1:  # by far the most requests: columns would cost half as much again
        only = _append_one(state, messages[0], batch, now_ms, pointer)
        return only, only
    first: bytes | None = None
    positions: list[bytes] = []
    for low in range(0, len(messages), PIECE_MESSAGES):
        payloads, ttls = columns(messages[low : low + PIECE_MESSAGES])
        positions = state.sequencer.take(len(payloads), now_ms)
        first = first or positions[0]
        places = [state.message_prefix + position for position in positions]
        batch.put_all(places, rows.encode_all(payloads, ttls, pointer))
        state.count_all(positions, list(map(len, payloads)), batch)
        for position, ttl_seconds in zip(positions, ttls, strict=False):
            if ttl_seconds:
                state.index_expiry(decode_position(position), ttl_seconds, batch)
    assert first is not None
    return decode_position(first), decode_position(positions[-1])


def _append_one(state: TopicState, message: bytes | Message, batch: Batch, now_ms: int, pointer: int) -> Position:
    payload, ttl_seconds = (message, 0) if isinstance(message, bytes) else message
    position = state.sequencer.next(now_ms)
    encoded = position.encode()
    batch.put(state.message_prefix + encoded, rows.encode(payload, ttl_seconds, pointer))
    state.count(encoded, 1, len(payload), batch)
    if ttl_seconds:
        state.index_expiry(position, ttl_seconds, batch)
    return position


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
