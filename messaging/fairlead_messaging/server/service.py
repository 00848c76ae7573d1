"""The one writer: turns commands, in order, into one batch and the answers that become true with it.

    propose(command, batch, now) …  →  the store applies the batch  →  settled() | forget()

State held here runs ahead of the store by the batch being built.  When a batch fails nobody knows
whether it took place, so everything is forgotten and read again: the store is the truth.
"""

from __future__ import annotations

import contextlib
from typing import Any, assert_never

from fairlead_messaging.api.errors import Conflict, StorageError
from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server import publishing, readers, retention
from fairlead_messaging.server.commands import (
    Abort,
    Command,
    Commit,
    CreateTopic,
    DeleteSubscription,
    DeleteTopic,
    Expire,
    Invalidate,
    NoteReader,
    NoteSubscription,
    Prune,
    Publish,
    PutSubscription,
    Remove,
    Rollback,
    Settle,
    Start,
    Store,
    TopicCommand,
    TransactionCommand,
    UpdateTopic,
)
from fairlead_messaging.server.log import topics
from fairlead_messaging.server.log.kv import Batch, OrderedKV
from fairlead_messaging.server.log.topic import Topic
from fairlead_messaging.server.subscriptions import changes as subscriptions
from fairlead_messaging.server.topic_state import TopicState
from fairlead_messaging.server.transactions import publish, rollback
from fairlead_messaging.server.transactions.manager import Transactions
from fairlead_messaging.server.transactions.transaction import Transaction

TOPICS_CACHED_MAX = 10_000
"""Topics whose writer state is remembered."""


class Service:
    """Decides every change; the caller applies one batch at a time, in order."""

    def __init__(self, kv: OrderedKV) -> None:
        self._kv = kv
        self._states: dict[tuple[str, str], TopicState] = {}
        self._advanced: set[tuple[str, str]] = set()
        self._decided: set[tuple[str, str]] = set()
        self.transactions = Transactions(kv)
        self._given_out: dict[tuple[str, str], Position] = {}
        self._is_stale = False
        """A batch failed, and the store could not be read since."""

    def propose(self, command: Command, batch: Batch, now_ms: int) -> Any:
        """Add the command's writes to ``batch``; returns its answer, true once the batch is durable.

        Raises: MessagingError; the command then left neither state nor writes behind.  StorageError when the store
        cannot be read.
        """
        if self._is_stale:
            self._read_again()
        match command:
            case Start() | Commit() | Abort() | Invalidate() | Expire() | Settle() | Prune():
                return self._transact(command, batch, now_ms)
            case Remove(batch=removals, silent=silent):
                retention.forget_silent(self._kv, silent, batch)
                batch.remove(removals)
                return None
            case _:
                return self._in_topic(command, batch, now_ms)

    def _in_topic(self, command: TopicCommand, batch: Batch, now_ms: int) -> Any:
        name = (command.namespace, command.name)
        state = self._state(*name)
        match command:
            case Publish():
                if command.pointer is None:
                    answer = publishing.publish(state, command, batch, now_ms)
                else:
                    answer = publish.publish(state, self.transactions, command, batch, now_ms)
                if answer.last is not None:
                    self._advanced.add(name)
                return answer
            case Store():
                publish.store(state, self.transactions, command, batch, now_ms)
                self._advanced.add(name)
                return None
            case Rollback():
                rollback.roll_back(self._kv, state, self.transactions, command, batch, now_ms)
                self._decided.add(name)
                return None
            case CreateTopic():
                return self._create(state, command, batch)
            case UpdateTopic():
                return self._update(state, command, batch)
            case DeleteTopic():
                return self._delete(state, command, batch)
            case PutSubscription() | NoteSubscription() | DeleteSubscription():
                return subscriptions.change(self._kv, state.living(*name), command, batch)
            case NoteReader():
                return readers.note(state.living(*name), command, batch, now_ms)
            case _:
                assert_never(command)

    def _transact(self, command: TransactionCommand, batch: Batch, now_ms: int) -> Any:
        transactions = self.transactions
        match command:
            case Start(timeout_seconds=seconds):
                return transactions.start(seconds, batch, now_ms)
            case Commit(pointer=pointer, changes=changes):
                return self._decide([transactions.commit(pointer, changes, batch, now_ms)])[0]
            case Abort(pointer=pointer):
                return self._decide([transactions.abort(pointer, batch, now_ms)])[0]
            case Invalidate(pointer=pointer):
                return self._decide([transactions.invalidate(pointer, batch, now_ms)])[0]
            case Expire():
                return len(self._decide(transactions.expire(batch, now_ms)))
            case Settle():
                return rollback.go_on(self._kv, transactions, batch) or transactions.settle(batch)
            case Prune():
                return transactions.prune(batch, now_ms)
            case _:
                assert_never(command)

    def _decide(self, finished: list[Transaction]) -> list[Transaction]:
        """Readers of the topics these touched may see more now."""
        self._decided.update((touched.namespace, touched.name) for each in finished for touched in each.touched)
        return finished

    def close_batch(self, batch: Batch) -> None:
        """Call once after the last ``propose`` of a batch: adds what is written once per topic."""
        for name in self._advanced:
            self._states[name].write_high(batch)

    def settled(self) -> set[tuple[str, str]]:
        """The batch is durable; returns the topics whose readers may see more than before."""
        advanced, self._advanced = self._advanced, set()
        decided, self._decided = self._decided, set()
        self.transactions.settled_batch()
        for name in advanced:
            self._states[name].trim()
        if len(self._states) > TOPICS_CACHED_MAX:
            self._states.clear()
        return advanced | decided

    def forget(self) -> None:
        """The batch failed: drop what was assumed, but never give a position out twice."""
        for name in self._advanced:
            self._given_out[name] = self._states[name].sequencer.last
        self._advanced.clear()
        self._decided.clear()
        self._states.clear()
        self._is_stale = True
        with contextlib.suppress(StorageError):  # then it is read before the next command is judged
            self._read_again()

    def _read_again(self) -> None:
        self.transactions = Transactions(self._kv, self.transactions.last_pointer)
        self._is_stale = False

    def _state(self, namespace: str, name: str) -> TopicState:
        state = self._states.get((namespace, name))
        if state is None:
            state = TopicState(self._kv, topics.record(self._kv, namespace, name))
            given_out = self._given_out.pop((namespace, name), None)
            if given_out is not None and given_out > state.sequencer.last:
                state.sequencer.timestamp, state.sequencer.sequence = given_out
            self._states[namespace, name] = state
        return state

    def _create(self, state: TopicState, command: CreateTopic, batch: Batch) -> Topic:
        if state.topic is not None and state.topic.exists:
            raise Conflict(
                f"topic {command.namespace}/{command.name} exists",
                code="topic_exists",
                generation=state.topic.generation,
            )
        generation = abs(state.topic.generation) + 1 if state.topic is not None else 1
        return self._write(state, _topic(command, generation), batch)

    def _update(self, state: TopicState, command: UpdateTopic, batch: Batch) -> Topic:
        living = state.living(command.namespace, command.name)
        return self._write(state, _topic(command, living.generation), batch)

    def _delete(self, state: TopicState, command: DeleteTopic, batch: Batch) -> Topic:
        living = state.living(command.namespace, command.name)
        dead = Topic(
            namespace=living.namespace, name=living.name, generation=-living.generation, ttl_seconds=living.ttl_seconds
        )
        return self._write(state, dead, batch)

    def _write(self, state: TopicState, topic: Topic, batch: Batch) -> Topic:
        topics.write(batch, topic)
        state.replace(topic)
        return topic


def _topic(command: CreateTopic | UpdateTopic, generation: int) -> Topic:
    return Topic(
        namespace=command.namespace,
        name=command.name,
        generation=generation,
        ttl_seconds=command.ttl_seconds,
        properties=command.properties,
    )
