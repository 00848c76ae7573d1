"""Messaging in a seeded world: plain, idempotent and transactional writers, one reader, a disk and a process that fail.

Writers' commands gather into group writes.  A write is lost, or takes place but its answers are lost, and in both cases
the process starts again from its disk; the clock jumps; cleanup and the marking of aborted rows run in between.

Laws: what was acknowledged is stored exactly once; ids increase strictly; every reader and page size sees the same
sequence, which only grows; what was aborted, timed out or rolled back is never seen; what was committed is seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.sim.laws import LawBroken
from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.errors import Conflict, MessagingError
from fairlead_messaging.api.message_id import FIRST
from fairlead_messaging.server import retention
from fairlead_messaging.server.commands import Command, PublishedAt, RemoveRows
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.producers import NumberedProducer
from fairlead_messaging.server.transactions.commands import (
    Abort,
    Commit,
    ExpireTransactions,
    MarkAborted,
    Rollback,
    Start,
    Store,
)
from fairlead_messaging.server.transactions.transaction import TransactionState

TOPIC = "t"
STEPS = 80
WRITERS = 6
TIMEOUT_SECONDS = 1.0
NO_ANSWER = object()

Script = Iterator[Command[Any]]


class MessagingWorld:
    """``acks_before_write`` plants the classic mistake, which the laws must notice."""

    def __init__(self, seed: int, *, acks_before_write: bool = False) -> None:
        self.random = Random(seed)
        self.core = Core()
        self._acks_before_write = acks_before_write
        self.names = 0
        self.acknowledged: set[str] = set()
        self.aborted: set[str] = set()
        self.seen: list[str] = []
        self._position, self._last_id = FIRST, b""

    def run(self) -> None:
        """Play, calm down, and check every law."""
        self.core.create(TOPIC, ttl_seconds=10_000)
        makers = [self._plain, self._once, self._transaction]
        writers = [self._for_ever(makers[number % 3], number) for number in range(WRITERS)]
        waiting = {number: next(writer) for number, writer in enumerate(writers)}
        for _ in range(STEPS):
            group = self.random.sample(sorted(waiting), self.random.randint(1, len(waiting)))
            answers = self._write([waiting[number] for number in group])
            for number, answer in zip(group, answers, strict=True):
                waiting[number] = writers[number].send(answer)
            self._between()
            self._read(self.random.randint(1, 5))
        self._calm()
        self._judge()

    # --- the machine

    def _write(self, commands: list[Command[Any]]) -> list[Any]:
        fate = self.random.random()
        if fate < 0.1:
            answers = self.core.batch(*commands, lost=True)
            self.core.restart()
            if self._acks_before_write:
                return [PublishedAt(first=None, last=None)] * len(commands)
            return [NO_ANSWER] * len(commands)
        answers = self.core.batch(*commands)
        if fate < 0.2:
            self.core.restart()
            return [NO_ANSWER] * len(commands)
        return answers

    def _between(self) -> None:
        self.core.now_ms += self.random.randrange(-200, 400)
        if self.random.random() < 0.4:
            self.core.do(ExpireTransactions())
        if self.random.random() < 0.4:
            self.core.do(MarkAborted())
        if self.random.random() < 0.2:
            with self.core.kv.snapshot() as snapshot:
                found = retention.sweep(snapshot, self.core.topic(TOPIC), self.core.now_ms)
            self.core.do(RemoveRows(batch=found.batch, silent=found.silent))

    def _read(self, limit: int) -> int:
        page = self.core.page(TOPIC, after=self._position, limit=limit, committed=True)
        for message_id, payload in zip(page.ids, page.payloads, strict=True):
            if message_id <= self._last_id:
                raise LawBroken(f"{message_id.hex()} came after {self._last_id.hex()}")
            self._last_id = message_id
            self.seen.append(payload.decode())
        self._position = page.next_position
        return len(page.ids)

    # --- the writers: each yields a command and is sent its answer

    def _for_ever(self, maker: Any, number: int) -> Any:
        script = maker(number)
        command = next(script)
        while True:
            answer = yield command
            try:
                command = script.send(answer)
            except StopIteration:
                script = maker(number)
                command = next(script)

    def _some(self) -> list[str]:
        count = self.random.randint(1, 3)
        self.names += count
        return [f"m{number}" for number in range(self.names - count, self.names)]

    def _plain(self, number: int) -> Any:
        """Sends each message once, without retries."""
        names = self._some()
        answer = yield publish(TOPIC, *names)
        if isinstance(answer, PublishedAt):
            self.acknowledged.update(names)

    def _once(self, number: int) -> Any:
        """Repeats under the same numbers until it is answered, sometimes later ones first."""
        names = self._some()
        sequences = [int(name[1:]) for name in names]
        if self.random.random() < 0.3:
            names, sequences = names[::-1], sequences[::-1]
        producer = NumberedProducer(id=f"p{number}", epoch=1, sequences=tuple(sequences))
        while not isinstance((yield publish(TOPIC, *names, producer=producer)), PublishedAt):
            continue
        self.acknowledged.update(names)

    def _transaction(self, number: int) -> Any:
        """Publishes directly and by reference, sometimes rolls back, and commits or aborts."""
        started = yield Start(timeout_seconds=TIMEOUT_SECONDS)
        if started is NO_ANSWER or not hasattr(started, "transaction"):
            return
        pointer = started.transaction.pointer
        kept: set[str] = set()
        dropped: set[str] = set()
        fine = True
        for _ in range(self.random.randint(1, 3)):
            names = self._some()
            if self.random.random() < 0.4:
                messages = [LoggedMessage(name.encode()) for name in names]
                fine &= (yield Store(namespace=NAMESPACE, name=TOPIC, messages=messages, pointer=pointer)) is None
                answer = yield publish(TOPIC, pointer=pointer)
            else:
                answer = yield publish(TOPIC, *names, pointer=pointer)
            if not isinstance(answer, PublishedAt):
                fine = False
                dropped.update(names)
                break
            kept.update(names)
            if self.random.random() < 0.2 and answer.first is not None and answer.last is not None:
                undone = yield Rollback(
                    namespace=NAMESPACE, name=TOPIC, pointer=pointer, first=answer.first, last=answer.last
                )
                if undone is None:
                    kept.difference_update(names)
                    dropped.update(names)
                else:
                    fine = False
                    break
        wants_commit = fine and self.random.random() < 0.6
        ended = yield from self._end(
            pointer, Commit(pointer=pointer, changes=[]) if wants_commit else Abort(pointer=pointer)
        )
        if ended == TransactionState.COMMITTED.value:
            self.acknowledged.update(kept)
            self.aborted.update(dropped)
        else:
            self.aborted.update(kept | dropped)

    def _end(self, pointer: int, command: Command[Any]) -> Any:
        """Asks until the state is known."""
        while True:
            answer = yield command
            if isinstance(answer, Conflict):
                state = str(answer.facts["state"])
                if state != TransactionState.IN_PROGRESS.value:
                    return state
            elif answer is not NO_ANSWER and not isinstance(answer, MessagingError) and hasattr(answer, "state"):
                return answer.state.value

    # --- the end

    def _calm(self) -> None:
        """No more failures; open transactions time out, and everything is marked."""
        self.core.now_ms += int(TIMEOUT_SECONDS * 1000) + 10_000
        self.core.do(ExpireTransactions())
        while self.core.do(MarkAborted()):
            continue
        while self._read(7):
            continue

    def _judge(self) -> None:
        counts = Counter(self.seen)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise LawBroken(f"seen twice: {twice}")
        if lost := self.acknowledged - set(self.seen):
            raise LawBroken(f"acknowledged and lost: {sorted(lost)}")
        if revived := self.aborted & set(self.seen):
            raise LawBroken(f"aborted and seen: {sorted(revived)}")
        for limit in (1, 2, 3, 7, 1000):
            names: list[str] = []
            position = FIRST
            while (page := self.core.page(TOPIC, after=position, limit=limit, committed=True)).ids:
                names += [payload.decode() for payload in page.payloads]
                position = page.ids[-1]
            if names != self.seen:
                raise LawBroken(f"pages of {limit} show another sequence than the reader that was there all along")
