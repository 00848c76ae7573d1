"""Store and publish under a transaction (seed: transactional messaging, "Transactional")."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from fairlead_messaging.api.errors import Conflict, Refused, Unavailable
from fairlead_messaging.api.message_id import POSITION_BYTES, SEQUENCE_MAX, Position, decode_position
from fairlead_messaging.server.commands import Publish, PublishedAt
from fairlead_messaging.server.log import keys, rows
from fairlead_messaging.server.log.rows import columns
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.log.topic_log import TopicLog
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV
from fairlead_messaging.server.transactions.commands import Rollback, Store
from fairlead_messaging.server.transactions.manager import TransactionManager
from fairlead_messaging.server.transactions.transaction import Rolling, Touched, Transaction, TransactionState


def publish(
    log: TopicLog, transactions: TransactionManager, command: Publish, batch: Batch, now_ms: int
) -> PublishedAt:
    """Publish messages with the pointer; without messages, a reference to the payloads stored under it.

    Messages may be published before payloads are stored but not after: ``stored_already``.
    Raises: NotFound, Refused, Conflict if the transaction is not in progress.
    """
    topic = _open_to_transactions(log, command.namespace, command.name)
    assert command.pointer is not None
    if command.producer is not None:
        # An abort would hide messages that the producer counts as stored, and skip their repeats: they would be lost.
        raise Refused("a producer and a transaction cannot be combined", code="producer_in_transaction")
    writing = transactions.writable(command.pointer, now_ms)
    before = writing.in_topic(topic)
    if command.messages and before is not None and before.has_stored:
        # The order of messages and stored payloads would be unclear, and the payloads might be forgotten.
        raise Refused(
            "payloads were stored under this transaction for this topic: store these messages too, then publish "
            "without messages",
            code="stored_already",
        )
    touched = writing.touch(topic)
    if command.messages:
        first, last = log.append(command.messages, batch, now_ms, command.pointer)
    else:
        span = touched.published.encode() + touched.stored.encode()
        first = last = log.append_reference(
            span, touched.pending_rows, touched.pending_bytes, batch, now_ms, command.pointer
        )
        batch.put(keys.table(keys.REFERENCE, topic) + last.encode(), keys.payloads(topic, command.pointer) + span)
        touched.published, touched.pending_rows, touched.pending_bytes = touched.stored, 0, 0
    assert first is not None and last is not None
    touched.extend(first, last, columns(command.messages)[1])
    touched.hold_up_seconds = topic.hold_up_seconds_max or 0
    transactions.write(writing, batch)
    return PublishedAt(first=first, last=last)


def check_published(found: Transaction, lives: Callable[[Touched], bool]) -> None:
    """Raises: Conflict if payloads for an existing topic are stored and not published: a commit would lose them."""
    waiting = [f"{each.namespace}/{each.name}" for each in found.touched if each.pending_rows and lives(each)]
    if waiting:
        raise Conflict(
            f"transaction {found.pointer} has stored payloads that are not published in {', '.join(waiting)}: publish "
            "there without messages and then commit, or abort",
            code="stored_unpublished",
            state=found.state.value,
            topics=waiting,
        )


def store(log: TopicLog, transactions: TransactionManager, command: Store, batch: Batch, now_ms: int) -> None:
    """Store payload rows, which are invisible until a publish under the same pointer.

    Raises: NotFound, Refused, Conflict if the transaction is not in progress.
    """
    topic = _open_to_transactions(log, command.namespace, command.name)
    writing = transactions.writable(command.pointer, now_ms)
    touched = writing.touch(topic)
    prefix = keys.payloads(topic, command.pointer)
    payloads, ttls = columns(command.messages)
    positions = log.sequencer.take(len(payloads), now_ms)
    batch.put_all([prefix + position for position in positions], rows.encode_all(payloads, ttls))
    touched.stored = decode_position(positions[-1])
    touched.pending_rows += len(payloads)
    touched.pending_bytes += sum(map(len, payloads))
    transactions.write(writing, batch)


def _open_to_transactions(log: TopicLog, namespace: str, name: str) -> TopicGeneration:
    topic = log.living(namespace, name)
    if topic.transactional == "refused":
        raise Refused("this topic accepts no transactional messages", code="transaction_refused")
    return topic


# --- Rolling back one publish.
# A rollback writes rows again with their pointer negated, like marking the rows of an aborted transaction. Both first
# check the batch being built, because a row that cleaning removes in it must not come back. Both work in slices, so
# that no turn of the event loop takes long; the rest is noted in the record of the transaction (``Touched.rolling``),
# and a commit waits for it.

LOOK_AHEAD_ROWS_MAX = 4096
"""How many rows to search for the position that readers can reach after a rollback."""


def roll_back(
    kv: OrderedKV, log: TopicLog, transactions: TransactionManager, command: Rollback, batch: Batch, now_ms: int
) -> None:
    """Mark the rows of one publish, or begin to; ``continue_rollback`` does the rest.

    Only rows of the pointer itself are touched.

    Raises: NotFound; Refused for a detail that this service did not issue; Conflict after a commit; Unavailable while
    another rollback of this transaction in this topic is in progress.
    """
    topic = log.living(command.namespace, command.name)
    found = transactions.find(command.pointer)
    touched = found.in_topic(topic) if found is not None else None
    if found is None or touched is None or touched.last is None or not command.first <= command.last <= touched.last:
        raise _forged()
    if found.state is TransactionState.COMMITTED:
        raise Conflict(
            f"transaction {command.pointer} is committed", code="transaction_not_in_progress", state="committed"
        )
    _check_ends(kv, topic, command, now_ms, touched)
    if found.state is not TransactionState.IN_PROGRESS:
        return  # all rows are hidden already, or will be
    if touched.rolling is not None:
        if (touched.rolling.first, touched.rolling.last) != (command.first, command.last):
            raise Unavailable("another rollback of this transaction is being carried out", code="rolling_back")
        return
    _slice(kv, transactions, found, touched, Rolling(command.first, command.last, command.first), batch)


def continue_rollback(kv: OrderedKV, transactions: TransactionManager, batch: Batch) -> bool:
    """Do the next slice of an unfinished rollback; False if there is none."""
    for found in transactions.rolling:
        for touched in found.touched:
            if touched.rolling is not None:
                _slice(kv, transactions, found, touched, touched.rolling, batch)
                return True
    return False


def _slice(
    kv: OrderedKV, transactions: TransactionManager, found: Transaction, touched: Touched, asked: Rolling, batch: Batch
) -> None:
    reached = transactions.mark(found.pointer, touched.topic, asked.reached, asked.last, batch)
    if reached is not None:
        touched.rolling = Rolling(asked.first, asked.last, reached)
        transactions.write(found, batch)
        return
    has_moved = touched.first is not None and asked.first <= touched.first <= asked.last
    if has_moved:
        assert touched.last is not None
        is_last = asked.last >= touched.last
        touched.first = None if is_last else _next_own(kv, touched.topic, found.pointer, asked.last, touched.last)
    if has_moved or touched.rolling is not None:
        touched.rolling = None
        transactions.write(found, batch)


def _check_ends(kv: OrderedKV, topic: TopicGeneration, command: Rollback, now_ms: int, touched: Touched) -> None:
    """Raises: Refused unless the detail begins and ends at a row of its pointer, or where one may have expired."""
    prefix = keys.table(keys.MESSAGE, topic)
    # The topic's time to live may have been shorter for a while: only the mark shows what was removed then.
    removed = kv.get(keys.table(keys.REMOVED, topic)) or b""
    for end in (command.first, command.last):
        value = kv.get(prefix + end.encode())
        is_own = value is not None and abs(rows.decode(value).pointer) == command.pointer
        is_gone = value is None and touched.spans(end) and end.encode() <= removed
        if not is_own and not is_gone and not touched.may_be_removed(end, topic, now_ms):
            raise _forged()


def _next_own(kv: OrderedKV, topic: TopicGeneration, pointer: int, after: Position, last: Position) -> Position | None:
    """The first row after the rollback that is not rolled back, from which on the transaction holds up readers.

    None if there is none; an earlier position if it is not found quickly, or not all its rows are stored yet.
    """
    prefix = keys.table(keys.MESSAGE, topic)
    reached = _successor(after)
    with kv.snapshot() as snapshot:
        if snapshot.get(prefix + last.encode()) is None:
            return reached
        found = snapshot.scan(prefix + reached.encode(), prefix + last.encode() + b"\x00")
        for key, value in islice(found, LOOK_AHEAD_ROWS_MAX):
            reached = decode_position(key[-POSITION_BYTES:])
            if rows.decode(value).pointer == pointer:
                return reached
    return None if reached == last else reached


def _successor(position: Position) -> Position:
    if position.sequence < SEQUENCE_MAX:
        return Position(position.timestamp, position.sequence + 1)
    return Position(position.timestamp + 1, 0)


def _forged() -> Refused:
    return Refused("this is not the answer to a publish to this topic", code="bad_rollback")
