"""Store, publish and roll back under a transaction (seed: transactional messaging, "Transactional")."""

from __future__ import annotations

from itertools import islice

from fairlead_messaging import keys, publishing, rows
from fairlead_messaging.commands import Publish, Published, Rollback, Store
from fairlead_messaging.errors import Conflict, Refused
from fairlead_messaging.kv import Batch, OrderedKV
from fairlead_messaging.message_id import POSITION_BYTES, SEQUENCE_MAX, Position, decode_position
from fairlead_messaging.topic import Topic
from fairlead_messaging.topic_state import TopicState
from fairlead_messaging.transaction import State, Touched
from fairlead_messaging.transactions import Transactions

LOOK_AHEAD_ROWS_MAX = 4096
"""Rows looked at to find where readers may go on to after a rollback."""


def publish(state: TopicState, transactions: Transactions, command: Publish, batch: Batch, now_ms: int) -> Published:
    """Rows with the pointer; without messages one reference to what was stored before under it.

    Raises: NotFound, Refused, Conflict when the transaction is not in progress.
    """
    topic = _open_to_transactions(state, command.namespace, command.name)
    assert command.pointer is not None
    if command.producer is not None:
        # An abort would hide what the producer counts as stored, and its retry would be skipped: lost.
        raise Refused("a producer and a transaction cannot be combined", code="producer_in_transaction")
    writing = transactions.writable(command.pointer, now_ms)
    touched = writing.touch(topic)
    if command.messages:
        first, last = publishing.append(state, command.messages, batch, now_ms, command.pointer)
    else:
        first = last = state.sequencer.next(now_ms)
        place = last.encode()
        span = touched.published.encode() + touched.stored.encode()
        batch.put(state.message_prefix + place, rows.encode(span, pointer=command.pointer, is_reference=True))
        batch.put(keys.table(keys.REFERENCE, topic) + place, keys.payloads(topic, command.pointer) + span)
        state.count(place, touched.pending_rows, touched.pending_bytes, batch)
        touched.published, touched.pending_rows, touched.pending_bytes = touched.stored, 0, 0
    assert first is not None and last is not None
    touched.extend(first, last, (message.ttl_seconds for message in command.messages))
    transactions.write(writing, batch)
    return Published(first=first, last=last)


def store(state: TopicState, transactions: Transactions, command: Store, batch: Batch, now_ms: int) -> None:
    """Payload rows, not visible before a publish under the same pointer.

    Raises: NotFound, Refused, Conflict when the transaction is not in progress.
    """
    topic = _open_to_transactions(state, command.namespace, command.name)
    writing = transactions.writable(command.pointer, now_ms)
    touched = writing.touch(topic)
    prefix = keys.payloads(topic, command.pointer)
    for payload, ttl_seconds in command.messages:
        touched.stored = state.sequencer.next(now_ms)
        batch.put(prefix + touched.stored.encode(), rows.encode(payload, ttl_seconds))
        touched.pending_rows += 1
        touched.pending_bytes += len(payload)
    transactions.write(writing, batch)


def roll_back(
    kv: OrderedKV, state: TopicState, transactions: Transactions, command: Rollback, batch: Batch, now_ms: int
) -> None:
    """Mark the rows of one publish.  Only rows of the pointer itself are ever touched.

    Raises: NotFound; Refused for a detail that this service did not give out; Conflict after a commit.
    """
    topic = state.living(command.namespace, command.name)
    found = transactions.find(command.pointer)
    touched = found.in_topic(topic) if found is not None else None
    if found is None or touched is None or touched.last is None or not command.first <= command.last <= touched.last:
        raise _forged()
    if found.state is State.COMMITTED:
        raise Conflict(
            f"transaction {command.pointer} is committed", code="transaction_not_in_progress", state="committed"
        )
    marked = _own_rows(kv, topic, command, now_ms, touched)
    for key, value in marked:
        batch.put(key, rows.rolled_back(value))
    if touched.first is not None and command.first <= touched.first <= command.last:
        touched.first = _next_own(kv, topic, command, touched.last) if command.last < touched.last else None
        transactions.write(found, batch)


def _own_rows(
    kv: OrderedKV, topic: Topic, command: Rollback, now_ms: int, touched: Touched
) -> list[tuple[bytes, bytes]]:
    """Raises: Refused unless the detail begins and ends at a row of its pointer, or where one may have expired."""
    prefix = keys.table(keys.MESSAGE, topic)
    own: list[tuple[bytes, bytes]] = []
    ends: set[Position] = set()
    with kv.snapshot() as snapshot:
        for key, value in snapshot.scan(prefix + command.first.encode(), prefix + command.last.encode() + b"\x00"):
            pointer = rows.decode(value).pointer
            if abs(pointer) == command.pointer:
                ends.add(decode_position(key[-POSITION_BYTES:]))
            if pointer == command.pointer:
                own.append((key, value))
    for end in (command.first, command.last):
        if end not in ends and not touched.may_be_removed(end, topic, now_ms):
            raise _forged()
    return own


def _next_own(kv: OrderedKV, topic: Topic, command: Rollback, last: Position) -> Position | None:
    """The transaction's first row after those rolled back that is not rolled back itself: readers wait for no other.

    None when there is none; a place before it where it is not found at once, or where not all its rows are stored yet.
    """
    prefix = keys.table(keys.MESSAGE, topic)
    reached = _successor(command.last)
    with kv.snapshot() as snapshot:
        if snapshot.get(prefix + last.encode()) is None:
            return reached
        found = snapshot.scan(prefix + reached.encode(), prefix + last.encode() + b"\x00")
        for key, value in islice(found, LOOK_AHEAD_ROWS_MAX):
            reached = decode_position(key[-POSITION_BYTES:])
            if rows.decode(value).pointer == command.pointer:
                return reached
    return None if reached == last else reached


def _open_to_transactions(state: TopicState, namespace: str, name: str) -> Topic:
    topic = state.living(namespace, name)
    if topic.transactional == "refused":
        raise Refused("this topic takes no transactional messages", code="transaction_refused")
    return topic


def _successor(position: Position) -> Position:
    if position.sequence < SEQUENCE_MAX:
        return Position(position.timestamp, position.sequence + 1)
    return Position(position.timestamp + 1, 0)


def _forged() -> Refused:
    return Refused("this is not what a publish of this topic answered", code="bad_rollback")
