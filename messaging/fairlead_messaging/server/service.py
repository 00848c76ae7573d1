"""The single writer: turns commands, in order, into a batch and the answers that become true with it.

    propose(command, batch, now) …  →  the store applies the batch  →  applied() | forget()

The state here is ahead of the store by the batch being built.  If a batch fails it is unknown whether it took place, so
all state is discarded and read again from the store.  Topics and transactions are kept apart: a damaged transaction
table stops no publish without a transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fairlead_messaging.api.errors import Conflict, OverQuota, Refused
from fairlead_messaging.server import access, readers, retention
from fairlead_messaging.server.access import Caller
from fairlead_messaging.server.commands import (
    Command,
    CreateTopic,
    DeleteTopic,
    Publish,
    PublishedAt,
    RecordReaderPosition,
    RemoveRows,
    UpdateTopic,
)
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.log.topic_log import TopicLog
from fairlead_messaging.server.producers import ProducerTable
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV
from fairlead_messaging.server.subscriptions import changes
from fairlead_messaging.server.subscriptions.changes import (
    DeleteSubscription,
    PutSubscription,
    RecordDelivery,
    SubscriptionCommand,
)
from fairlead_messaging.server.topic_states import Name, TopicStates
from fairlead_messaging.server.transactions import publishing
from fairlead_messaging.server.transactions.availability import TransactionService
from fairlead_messaging.server.transactions.commands import (
    Abort,
    Commit,
    ExpireTransactions,
    Invalidate,
    MarkAborted,
    PruneTransactions,
    RenewTransaction,
    Rollback,
    Start,
    Store,
)
from fairlead_messaging.server.transactions.manager import StartedTransaction, TransactionManager
from fairlead_messaging.server.transactions.transaction import Touched, Transaction, TransactionLimits, TransactionState

T = TypeVar("T")
TOPICS_RETRY_SECONDS = 60.0
"""Until a topic may have been deleted."""


def _no_limit(namespace: str) -> int | None:
    return None


class Service:
    """Decides every change; the caller applies one batch at a time, in order."""

    def __init__(
        self,
        kv: OrderedKV,
        limits: TransactionLimits | None = None,
        topics_max: Callable[[str], int | None] = _no_limit,
    ) -> None:
        """``topics_max``: how many topics a namespace may have, None for any number."""
        self._kv = kv
        self._topics_max = topics_max
        self._topics = TopicStates(kv)
        self._decided: set[Name] = set()
        self.transaction_service = TransactionService(kv, limits)
        self._handlers: dict[type[Command[Any]], Callable[[Any, Batch, int], Any]] = {}
        self._handle(CreateTopic, self._create)
        self._handle(UpdateTopic, self._update)
        self._handle(DeleteTopic, self._delete)
        self._handle(Publish, self._publish)
        self._handle(RecordReaderPosition, self._record_reader_position)
        self._handle(RemoveRows, self._remove_rows)
        self._handle(Store, self._store)
        for kind in (PutSubscription, RecordDelivery, DeleteSubscription):
            self._handle(kind, self._change_subscription)
        self._handle_transactions(Start, self._start)
        self._handle_transactions(RenewTransaction, self._renew)
        self._handle_transactions(Commit, self._commit)
        self._handle_transactions(Abort, self._abort)
        self._handle_transactions(Invalidate, self._invalidate)
        self._handle_transactions(ExpireTransactions, self._expire)
        self._handle_transactions(MarkAborted, self._mark_aborted)
        self._handle_transactions(PruneTransactions, self._prune)
        self._handle_transactions(Rollback, self._roll_back)

    def _handle(self, kind: type[Command[T]], handler: Callable[[Any, Batch, int], T]) -> None:
        """Let ``handler`` handle commands of this kind, and return the answer that they are typed by."""
        self._handlers[kind] = handler

    def _handle_transactions(
        self, kind: type[Command[T]], handler: Callable[[TransactionManager, Any, Batch, int], T]
    ) -> None:
        """The same for commands on transactions, where a failure of the manager must not affect other commands."""

        def with_manager(command: Command[T], batch: Batch, now_ms: int) -> T:
            return self.transaction_service.perform(
                lambda manager: handler(manager, command, batch, now_ms), batch, now_ms
            )

        self._handlers[kind] = with_manager

    @property
    def transactions(self) -> TransactionManager:
        """Raises: TransactionsUnavailable."""
        return self.transaction_service.required()

    def propose(self, command: Command[T], batch: Batch, now_ms: int) -> T:
        """Add the command's writes to ``batch``; its answer becomes true once the batch is durable.

        Raises: MessagingError, and then the command left neither state nor writes behind; StorageError if the store
        cannot be read.
        """
        handler: Callable[[Command[T], Batch, int], T] = self._handlers[type(command)]
        return handler(command, batch, now_ms)

    # --- topics

    def _publish(self, command: Publish, batch: Batch, now_ms: int) -> PublishedAt:
        name = (command.namespace, command.name)
        log, producers = self._topics.of(name)
        if command.pointer is None:
            answer = publish_plain(log, producers, command, batch, now_ms)
        else:
            manager = self.transaction_service.manager(now_ms)
            self._check_owner(manager, command.pointer, command.by)
            answer = publishing.publish(log, manager, command, batch, now_ms)
        if answer.last is not None:
            self._topics.advance(name)
        return answer

    def _create(self, command: CreateTopic, batch: Batch, now_ms: int) -> TopicGeneration:
        before = self._topics.of((command.namespace, command.name)).log.topic
        if before is not None and before.exists:
            raise Conflict(
                f"topic {command.namespace}/{command.name} exists",
                code="topic_exists",
                generation=before.generation,
            )
        most = self._topics_max(command.namespace)
        if most is not None and self._topics.count(command.namespace) >= most:
            raise OverQuota(
                f"namespace {command.namespace} may have {most} topics: delete one, or raise its quota",
                code="quota_topics",
                retry_after_seconds=TOPICS_RETRY_SECONDS,
            )
        generation = abs(before.generation) + 1 if before is not None else 1
        return self._topics.replace(_topic(command, generation), batch)

    def _update(self, command: UpdateTopic, batch: Batch, now_ms: int) -> TopicGeneration:
        living = self._living(command.namespace, command.name)
        return self._topics.replace(_topic(command, living.generation), batch)

    def _delete(self, command: DeleteTopic, batch: Batch, now_ms: int) -> TopicGeneration:
        living = self._living(command.namespace, command.name)
        dead = TopicGeneration(
            namespace=living.namespace, name=living.name, generation=-living.generation, ttl_seconds=living.ttl_seconds
        )
        return self._topics.replace(dead, batch)

    def _record_reader_position(self, command: RecordReaderPosition, batch: Batch, now_ms: int) -> None:
        readers.record(self._kv, self._living(command.namespace, command.name), command, batch, now_ms)

    def _change_subscription(self, command: SubscriptionCommand, batch: Batch, now_ms: int) -> None:
        changes.change(self._kv, self._living(command.namespace, command.name), command, batch)

    def _remove_rows(self, command: RemoveRows, batch: Batch, now_ms: int) -> None:
        retention.forget_silent(self._kv, command.silent, batch)
        batch.remove(command.batch)

    def _store(self, command: Store, batch: Batch, now_ms: int) -> None:
        name, manager = (command.namespace, command.name), self.transaction_service.manager(now_ms)
        self._check_owner(manager, command.pointer, command.by)
        publishing.store(self._topics.of(name).log, manager, command, batch, now_ms)
        self._topics.advance(name)

    # --- transactions

    def _start(self, manager: TransactionManager, command: Start, batch: Batch, now_ms: int) -> StartedTransaction:
        return manager.start(command.timeout_seconds, batch, now_ms, command.by.owner)

    def _renew(self, manager: TransactionManager, command: RenewTransaction, batch: Batch, now_ms: int) -> Transaction:
        self._check_owner(manager, command.pointer, command.by)
        return manager.renew(command.pointer, command.timeout_seconds, batch, now_ms)

    def _commit(self, manager: TransactionManager, command: Commit, batch: Batch, now_ms: int) -> Transaction:
        found = self._check_owner(manager, command.pointer, command.by)
        if found is not None and found.state is TransactionState.IN_PROGRESS:
            publishing.check_published(manager.writable(command.pointer, now_ms), self._exists)
        return self._finished(manager.commit(command.pointer, command.changes, batch, now_ms))

    def _abort(self, manager: TransactionManager, command: Abort, batch: Batch, now_ms: int) -> Transaction:
        self._check_may_end(manager, command.pointer, command.by)
        return self._finished(manager.abort(command.pointer, batch, now_ms))

    def _invalidate(self, manager: TransactionManager, command: Invalidate, batch: Batch, now_ms: int) -> Transaction:
        self._check_may_end(manager, command.pointer, command.by)
        return self._finished(manager.invalidate(command.pointer, batch, now_ms))

    def _expire(
        self, manager: TransactionManager, command: ExpireTransactions, batch: Batch, now_ms: int
    ) -> tuple[Transaction, ...]:
        return tuple(self._finished(each) for each in manager.expire(batch, now_ms))

    def _mark_aborted(self, manager: TransactionManager, command: MarkAborted, batch: Batch, now_ms: int) -> bool:
        rolling = [touched for each in manager.rolling for touched in each.touched if touched.rolling is not None]
        if publishing.continue_rollback(self._kv, manager, batch):
            self._decided.update((touched.namespace, touched.name) for touched in rolling)
            return True
        return manager.mark_aborted(batch)

    def _prune(self, manager: TransactionManager, command: PruneTransactions, batch: Batch, now_ms: int) -> bool:
        return manager.prune(batch, now_ms)

    def _roll_back(self, manager: TransactionManager, command: Rollback, batch: Batch, now_ms: int) -> None:
        name = (command.namespace, command.name)
        self._check_owner(manager, command.pointer, command.by)
        publishing.roll_back(self._kv, self._topics.of(name).log, manager, command, batch, now_ms)
        self._decided.add(name)

    def _check_owner(self, manager: TransactionManager, pointer: int, by: Caller) -> Transaction | None:
        """The transaction, if there is one.  Raises: Forbidden."""
        found = manager.find(pointer)
        if found is not None:
            access.check_owner(by, pointer, found.owner)
        return found

    def _check_may_end(self, manager: TransactionManager, pointer: int, by: Caller) -> None:
        """Raises: Forbidden."""
        found = manager.find(pointer)
        if found is not None:
            access.check_may_end(by, pointer, found.owner, found.touched)

    def _finished(self, found: Transaction) -> Transaction:
        """Wake the readers of the topics that it touched, who may see more now."""
        self._decided.update((touched.namespace, touched.name) for touched in found.touched)
        return found

    def _exists(self, touched: Touched) -> bool:
        """Whether the touched generation of the topic still exists."""
        topic = self._topics.of((touched.namespace, touched.name)).log.topic
        return topic is not None and touched.is_of(topic)

    # --- batches

    def close_batch(self, batch: Batch) -> None:
        """Add what is written once per topic; call it after the last ``propose`` of a batch."""
        self._topics.close_batch(batch)

    def applied(self) -> set[Name]:
        """Record that the batch is durable; returns the topics whose readers may see more than before."""
        decided, self._decided = self._decided, set()
        self.transaction_service.applied()
        return self._topics.applied() | decided

    def forget(self) -> None:
        """Discard all state after a failed batch, but never assign a position twice."""
        self._decided.clear()
        self._topics.forget()
        self.transaction_service.forget()

    def _living(self, namespace: str, name: str) -> TopicGeneration:
        """The existing topic.  Raises: NotFound."""
        return self._topics.living((namespace, name))


def _topic(command: CreateTopic | UpdateTopic, generation: int) -> TopicGeneration:
    return TopicGeneration(
        namespace=command.namespace,
        name=command.name,
        generation=generation,
        ttl_seconds=command.ttl_seconds,
        properties=command.properties,
        delivery=command.delivery,
    )


# --- Publishing without a transaction.


def publish_plain(log: TopicLog, producers: ProducerTable, command: Publish, batch: Batch, now_ms: int) -> PublishedAt:
    """Publish messages.  Raises: NotFound, Refused, Conflict (fenced), and then nothing was changed."""
    topic = log.living(command.namespace, command.name)
    if topic.transactional == "required":
        raise Refused("this topic accepts only transactional messages", code="transaction_required")
    if command.producer is not None:
        return _publish_once(log, producers, topic, command, batch, now_ms)
    first, last = log.append(command.messages, batch, now_ms)
    return PublishedAt(first=first, last=last)


def _publish_once(
    log: TopicLog, producers: ProducerTable, topic: TopicGeneration, command: Publish, batch: Batch, now_ms: int
) -> PublishedAt:
    """Store the messages whose sequences are new; the intervals are written in the same batch."""
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
