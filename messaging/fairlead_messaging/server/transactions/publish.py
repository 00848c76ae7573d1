"""Store and publish under a transaction (seed: transactional messaging, "Transactional")."""

from __future__ import annotations

from collections.abc import Callable

from fairlead_messaging.api.errors import Conflict, Refused
from fairlead_messaging.api.message_id import decode_position
from fairlead_messaging.server.commands import Publish, PublishedAt
from fairlead_messaging.server.log import keys, rows
from fairlead_messaging.server.log.message import columns
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.log.topic_log import TopicLog
from fairlead_messaging.server.store.batch import Batch
from fairlead_messaging.server.transactions.commands import Store
from fairlead_messaging.server.transactions.manager import TransactionManager
from fairlead_messaging.server.transactions.transaction import Touched, Transaction


def publish(
    log: TopicLog, transactions: TransactionManager, command: Publish, batch: Batch, now_ms: int
) -> PublishedAt:
    """Rows with the pointer; without messages one reference to what was stored before under it.

    Rows may come before stored payloads and not after: ``stored_already``.
    Raises: NotFound, Refused, Conflict when the transaction is not in progress.
    """
    topic = _open_to_transactions(log, command.namespace, command.name)
    assert command.pointer is not None
    if command.producer is not None:
        # An abort would hide what the producer counts as stored, and its retry would be skipped: lost.
        raise Refused("a producer and a transaction cannot be combined", code="producer_in_transaction")
    writing = transactions.writable(command.pointer, now_ms)
    before = writing.in_topic(topic)
    if command.messages and before is not None and before.has_stored:
        # In one transaction the order of rows and stored payloads would be a guess, and the payloads may be forgotten.
        raise Refused(
            "payloads were stored under this transaction for this topic: store these messages too, and publish all of "
            "them without messages",
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
    """Raises: Conflict when payloads are stored in a living topic and not published: a commit would lose them."""
    waiting = [f"{each.namespace}/{each.name}" for each in found.touched if each.pending_rows and lives(each)]
    if waiting:
        raise Conflict(
            f"transaction {found.pointer} has stored payloads that are not published in {', '.join(waiting)}: publish "
            "there without messages, then commit; or abort",
            code="stored_unpublished",
            state=found.state.value,
            topics=waiting,
        )


def store(log: TopicLog, transactions: TransactionManager, command: Store, batch: Batch, now_ms: int) -> None:
    """Payload rows, not visible before a publish under the same pointer.

    Raises: NotFound, Refused, Conflict when the transaction is not in progress.
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
        raise Refused("this topic takes no transactional messages", code="transaction_refused")
    return topic
