"""The one writer: turns commands, in order, into one batch and the answers that become true with it.

    propose(command, batch, now) …  →  the store applies the batch  →  applied() | forget()

State held here runs ahead of the store by the batch being built.  When a batch fails it is unknown whether it took
place, so everything is forgotten and read again: the store is the truth.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from fairlead_messaging.api.errors import Conflict, StorageError
from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server import publishing, readers, retention
from fairlead_messaging.server.commands import (
    Command,
    CreateTopic,
    DeleteTopic,
    Publish,
    Published,
    RecordReaderPosition,
    RemoveRows,
    UpdateTopic,
)
from fairlead_messaging.server.log import topics
from fairlead_messaging.server.log.topic import Topic
from fairlead_messaging.server.log.topic_log import TopicLog
from fairlead_messaging.server.producers.table import ProducerTable
from fairlead_messaging.server.store.batch import Batch
from fairlead_messaging.server.store.ordered_kv import OrderedKV
from fairlead_messaging.server.subscriptions import changes
from fairlead_messaging.server.subscriptions.commands import (
    DeleteSubscription,
    PutSubscription,
    RecordDelivery,
    SubscriptionCommand,
)
from fairlead_messaging.server.transactions import publish, rollback
from fairlead_messaging.server.transactions.commands import (
    Abort,
    Commit,
    Expired,
    ExpireTransactions,
    Invalidate,
    MarkAborted,
    PruneTransactions,
    Renew,
    Rollback,
    Start,
    Store,
)
from fairlead_messaging.server.transactions.deadline import TransactionLimits
from fairlead_messaging.server.transactions.manager import Started, TransactionManager
from fairlead_messaging.server.transactions.transaction import Transaction

T = TypeVar("T")

TOPICS_CACHED_MAX = 10_000
"""Topics whose writer state is remembered."""


class TopicState(NamedTuple):
    """What the writer has at hand of one topic."""

    log: TopicLog
    producers: ProducerTable


class Service:
    """Decides every change; the caller applies one batch at a time, in order."""

    def __init__(self, kv: OrderedKV, limits: TransactionLimits | None = None) -> None:
        self._kv = kv
        self._states: dict[tuple[str, str], TopicState] = {}
        self._advanced: set[tuple[str, str]] = set()
        self._decided: set[tuple[str, str]] = set()
        self.transactions = TransactionManager(kv, limits=limits)
        self._given_out: dict[tuple[str, str], Position] = {}
        self._is_stale = False
        """A batch failed, and the store could not be read since."""
        self._handlers: dict[type[Command[Any]], Callable[[Any, Batch, int], Any]] = {}
        self._handle(CreateTopic, self._create)
        self._handle(UpdateTopic, self._update)
        self._handle(DeleteTopic, self._delete)
        self._handle(Publish, self._publish)
        self._handle(RecordReaderPosition, self._record_reader_position)
        self._handle(RemoveRows, self._remove_rows)
        self._handle(Start, self._start)
        self._handle(Renew, self._renew)
        self._handle(Commit, self._commit)
        self._handle(Abort, self._abort)
        self._handle(Invalidate, self._invalidate)
        self._handle(ExpireTransactions, self._expire)
        self._handle(MarkAborted, self._mark_aborted)
        self._handle(PruneTransactions, self._prune)
        self._handle(Store, self._store)
        self._handle(Rollback, self._roll_back)
        for kind in (PutSubscription, RecordDelivery, DeleteSubscription):
            self._handle(kind, self._change_subscription)

    def _handle(self, kind: type[Command[T]], handler: Callable[[Any, Batch, int], T]) -> None:
        """Commands of this kind go to ``handler``, which gives the answer they are typed by."""
        self._handlers[kind] = handler

    def propose(self, command: Command[T], batch: Batch, now_ms: int) -> T:
        """Add the command's writes to ``batch``; returns its answer, true once the batch is durable.

        Raises: MessagingError; the command then left neither state nor writes behind.  StorageError when the store
        cannot be read.
        """
        if self._is_stale:
            self._read_again()
        handler: Callable[[Command[T], Batch, int], T] = self._handlers[type(command)]
        return handler(command, batch, now_ms)

    # --- topics

    def _publish(self, command: Publish, batch: Batch, now_ms: int) -> Published:
        name = (command.namespace, command.name)
        state = self._state(*name)
        if command.pointer is None:
            answer = publishing.publish(state.log, state.producers, command, batch, now_ms)
        else:
            answer = publish.publish(state.log, self.transactions, command, batch, now_ms)
        if answer.last is not None:
            self._advanced.add(name)
        return answer

    def _create(self, command: CreateTopic, batch: Batch, now_ms: int) -> Topic:
        state = self._state(command.namespace, command.name)
        before = state.log.topic
        if before is not None and before.exists:
            raise Conflict(
                f"topic {command.namespace}/{command.name} exists",
                code="topic_exists",
                generation=before.generation,
            )
        generation = abs(before.generation) + 1 if before is not None else 1
        return self._write(state, _topic(command, generation), batch)

    def _update(self, command: UpdateTopic, batch: Batch, now_ms: int) -> Topic:
        state = self._state(command.namespace, command.name)
        living = state.log.living(command.namespace, command.name)
        return self._write(state, _topic(command, living.generation), batch)

    def _delete(self, command: DeleteTopic, batch: Batch, now_ms: int) -> Topic:
        state = self._state(command.namespace, command.name)
        living = state.log.living(command.namespace, command.name)
        dead = Topic(
            namespace=living.namespace, name=living.name, generation=-living.generation, ttl_seconds=living.ttl_seconds
        )
        return self._write(state, dead, batch)

    def _record_reader_position(self, command: RecordReaderPosition, batch: Batch, now_ms: int) -> None:
        readers.record(self._living(command.namespace, command.name), command, batch, now_ms)

    def _change_subscription(self, command: SubscriptionCommand, batch: Batch, now_ms: int) -> None:
        changes.change(self._kv, self._living(command.namespace, command.name), command, batch)

    def _remove_rows(self, command: RemoveRows, batch: Batch, now_ms: int) -> None:
        retention.forget_silent(self._kv, command.silent, batch)
        batch.remove(command.batch)

    # --- transactions

    def _start(self, command: Start, batch: Batch, now_ms: int) -> Started:
        return self.transactions.start(command.timeout_seconds, batch, now_ms)

    def _renew(self, command: Renew, batch: Batch, now_ms: int) -> Transaction:
        return self.transactions.renew(command.pointer, command.timeout_seconds, batch, now_ms)

    def _commit(self, command: Commit, batch: Batch, now_ms: int) -> Transaction:
        return self._finished(self.transactions.commit(command.pointer, command.changes, batch, now_ms))

    def _abort(self, command: Abort, batch: Batch, now_ms: int) -> Transaction:
        return self._finished(self.transactions.abort(command.pointer, batch, now_ms))

    def _invalidate(self, command: Invalidate, batch: Batch, now_ms: int) -> Transaction:
        return self._finished(self.transactions.invalidate(command.pointer, batch, now_ms))

    def _expire(self, command: ExpireTransactions, batch: Batch, now_ms: int) -> Expired:
        ended = self.transactions.expire(batch, now_ms)
        return Expired(transactions=tuple(self._finished(each) for each in ended))

    def _mark_aborted(self, command: MarkAborted, batch: Batch, now_ms: int) -> bool:
        return rollback.go_on(self._kv, self.transactions, batch) or self.transactions.mark_aborted(batch)

    def _prune(self, command: PruneTransactions, batch: Batch, now_ms: int) -> bool:
        return self.transactions.prune(batch, now_ms)

    def _store(self, command: Store, batch: Batch, now_ms: int) -> None:
        name = (command.namespace, command.name)
        publish.store(self._state(*name).log, self.transactions, command, batch, now_ms)
        self._advanced.add(name)

    def _roll_back(self, command: Rollback, batch: Batch, now_ms: int) -> None:
        name = (command.namespace, command.name)
        rollback.roll_back(self._kv, self._state(*name).log, self.transactions, command, batch, now_ms)
        self._decided.add(name)

    def _finished(self, found: Transaction) -> Transaction:
        """Readers of the topics it touched may see more now."""
        self._decided.update((touched.namespace, touched.name) for touched in found.touched)
        return found

    # --- batches

    def close_batch(self, batch: Batch) -> None:
        """Call once after the last ``propose`` of a batch: adds what is written once per topic."""
        for name in self._advanced:
            self._states[name].log.write_end(batch)

    def applied(self) -> set[tuple[str, str]]:
        """The batch is durable; returns the topics whose readers may see more than before."""
        advanced, self._advanced = self._advanced, set()
        decided, self._decided = self._decided, set()
        self.transactions.batch_applied()
        for name in advanced:
            self._states[name].producers.trim()
        if len(self._states) > TOPICS_CACHED_MAX:
            self._states.clear()
        return advanced | decided

    def forget(self) -> None:
        """The batch failed: drop what was assumed, but never give a position out twice."""
        for name in self._advanced:
            self._given_out[name] = self._states[name].log.sequencer.last
        self._advanced.clear()
        self._decided.clear()
        self._states.clear()
        self._is_stale = True
        with contextlib.suppress(StorageError):  # then it is read before the next command is judged
            self._read_again()

    def _read_again(self) -> None:
        self.transactions = TransactionManager(self._kv, self.transactions.last_pointer, self.transactions.limits)
        self._is_stale = False

    def _state(self, namespace: str, name: str) -> TopicState:
        state = self._states.get((namespace, name))
        if state is None:
            log = TopicLog(self._kv, topics.record(self._kv, namespace, name))
            given_out = self._given_out.pop((namespace, name), None)
            if given_out is not None:
                log.go_on_after(given_out)
            state = TopicState(log, ProducerTable(self._kv))
            self._states[namespace, name] = state
        return state

    def _living(self, namespace: str, name: str) -> Topic:
        """Raises: NotFound when there is no living topic."""
        return self._state(namespace, name).log.living(namespace, name)

    def _write(self, state: TopicState, topic: Topic, batch: Batch) -> Topic:
        topics.write(batch, topic)
        if state.log.replace(topic):
            state.producers.clear()
        return topic


def _topic(command: CreateTopic | UpdateTopic, generation: int) -> Topic:
    return Topic(
        namespace=command.namespace,
        name=command.name,
        generation=generation,
        ttl_seconds=command.ttl_seconds,
        properties=command.properties,
    )
