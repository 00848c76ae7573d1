"""The messaging core without HTTP, threads or time: commands in, responses out, one batch at a time.

core = Core();  core.create("t");  core.do(publish("t", "a"));  core.read("t")
"""

from __future__ import annotations

from typing import Any, get_args, get_origin

from fairlead_messaging.api.errors import MessagingError
from fairlead_messaging.api.message_id import FIRST, LAST, MessageId
from fairlead_messaging.server.commands import Command, CreateTopic, Publish
from fairlead_messaging.server.log import reader, topics
from fairlead_messaging.server.log.reader import MessagePage
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.producers import NumberedProducer
from fairlead_messaging.server.service import Service
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.commands import Commit, Start, Store
from fairlead_messaging.server.transactions.transaction import Transaction, TransactionLimits

NAMESPACE = "n"
START_MS = 1_000_000_000


def publish(name: str, *payloads: str, pointer: int | None = None, producer: NumberedProducer | None = None) -> Publish:
    messages = [LoggedMessage(payload.encode()) for payload in payloads]
    return Publish(namespace=NAMESPACE, name=name, messages=messages, pointer=pointer, producer=producer)


def store(pointer: int, *messages: str | LoggedMessage, name: str = "t") -> Store:
    logged = [LoggedMessage(each.encode()) if isinstance(each, str) else each for each in messages]
    return Store(namespace=NAMESPACE, name=name, messages=logged, pointer=pointer)


def producer(*sequences: int, epoch: int = 1, fence: bool = False) -> NumberedProducer:
    return NumberedProducer(id="p", epoch=epoch, sequences=sequences, fence=fence)


class Core:
    """A service over a store, and a clock that only the test moves."""

    def __init__(self, kv: OrderedKV | None = None, limits: TransactionLimits | None = None) -> None:
        self.kv = kv or MemoryKV()
        self.now_ms = START_MS
        self._limits = limits
        self.service = Service(self.kv, limits)

    def restart(self) -> None:
        """Lose everything in memory, as after kill -9."""
        self.service = Service(self.kv, self._limits)

    def batch(self, *commands: Command[Any], lost: bool = False) -> list[Any]:
        """One group write; returns responses, or the error of a command.  ``lost``: the write never happens."""
        batch = Batch()
        answers: list[Any] = []
        for command in commands:
            try:
                answers.append(self.service.propose(command, batch, self.now_ms))
            except MessagingError as error:
                answers.append(error)
        self.service.close_batch(batch)
        if lost:
            self.service.forget()
            return []
        self.kv.apply(batch)
        self.service.applied()
        return answers

    def do(self, command: Command[Any]) -> Any:
        """One command in its own batch; raises its error."""
        [answer] = self.batch(command)
        if isinstance(answer, MessagingError):
            raise answer
        return answer

    def start(self, timeout_seconds: float = 30) -> int:
        """Begin a transaction; returns its pointer."""
        pointer: int = self.do(Start(timeout_seconds=timeout_seconds)).transaction.pointer
        return pointer

    def store(self, pointer: int, *messages: str | LoggedMessage, name: str = "t") -> None:
        self.do(store(pointer, *messages, name=name))

    def commit(self, pointer: int, *changes: str) -> Transaction:
        finished: Transaction = self.do(Commit(pointer=pointer, changes=list(changes)))
        return finished

    def create(self, name: str, ttl_seconds: int = 1000, **properties: str) -> TopicGeneration:
        created: TopicGeneration = self.do(
            CreateTopic(namespace=NAMESPACE, name=name, ttl_seconds=ttl_seconds, properties=properties)
        )
        return created

    def topic(self, name: str) -> TopicGeneration:
        return topics.lookup(self.kv, NAMESPACE, name)

    def page(
        self,
        name: str,
        *,
        after: MessageId = FIRST,
        upto: MessageId = LAST,
        limit: int = 1000,
        bytes_max: int = 10**9,
        committed: bool = False,
    ) -> MessagePage:
        with self.kv.snapshot() as snapshot:
            return reader.read(
                snapshot,
                self.topic(name),
                after=after,
                upto=upto,
                limit=limit,
                bytes_max=bytes_max,
                now_ms=self.now_ms,
                states=visibility.row_states_of(snapshot, None, read_committed=committed),
            )

    def read(self, name: str, **how: Any) -> list[str]:
        return [payload.decode() for payload in self.page(name, **how).payloads]


def answers_as_typed(core: Core, command: Command[Any]) -> None:
    """Check that the response is an instance of T in the command's ``Command[T]``."""
    [wanted] = [get_args(base)[0] for base in type(command).__orig_bases__ if get_args(base)]  # type: ignore[attr-defined]
    answer = core.do(command)
    assert isinstance(answer, get_origin(wanted) or wanted), (
        f"{type(command).__name__} answered {type(answer).__name__}, not {wanted}"
    )
