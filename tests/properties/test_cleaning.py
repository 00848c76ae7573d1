"""Cleaning together with marking and rolling back, in the same batches: what is removed does not come back.

Messages of open transactions expire, the transactions are aborted, rolled back and time out, and cleaning, which read
the rows a moment ago, removes them in the same batch in which they are marked.  At the end a few passes leave nothing.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, producer, publish

from fairlead_messaging.api.errors import MessagingError
from fairlead_messaging.server import retention
from fairlead_messaging.server.commands import Command, Publish, PublishedAt, RemoveRows
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.producers import RETENTION_SECONDS_MIN
from fairlead_messaging.server.store.ordered_kv import Batch
from fairlead_messaging.server.transactions import manager
from fairlead_messaging.server.transactions.commands import (
    Abort,
    Commit,
    ExpireTransactions,
    MarkAborted,
    Rollback,
    Start,
    Store,
)

TTL_SECONDS = 10
PASSES = 4
SEEDS = 150


class World:
    """One topic; sweeps are computed early and applied late."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.core = Core()
        self.core.create("t", ttl_seconds=TTL_SECONDS)
        self.open: list[int] = []
        self.details: list[tuple[int, PublishedAt]] = []
        self.sweep = retention.Sweep()
        self.removed = b""

    def play(self) -> None:
        for _ in range(120):
            self._group()
            self.core.now_ms += self.random.choice([0, 1, 300, 2500])
            if self.random.random() < 0.5:
                self._look()
            if self.random.random() < 0.05:
                self.core.restart()
        for pointer in self.open:
            self.core.batch(Abort(pointer=pointer))
        self.core.now_ms += TTL_SECONDS * 1000 + 1
        self._group()
        while self.core.do(MarkAborted()):
            continue
        self.core.now_ms += TTL_SECONDS * 1000 + 1  # what the last group published expires, too
        for _ in range(PASSES):
            self._look()
            self._clean()

    def left(self) -> int:
        with self.core.kv.snapshot() as snapshot:
            tables = (keys.MESSAGE, keys.EXPIRY, keys.REFERENCE, keys.PAYLOAD)
            return sum(1 for letter in tables for _ in snapshot.scan(letter, keys.above(letter)))

    def _look(self) -> None:
        with self.core.kv.snapshot() as snapshot:
            self.sweep = retention.sweep(snapshot, self.core.topic("t"), self.core.now_ms)
            removed = snapshot.get(keys.table(keys.REMOVED, self.core.topic("t"))) or b""
        assert removed >= self.removed, "what is removed for good goes backwards"
        self.removed = removed

    def _clean(self) -> None:
        self.core.do(RemoveRows(batch=self.sweep.batch, silent=self.sweep.silent))
        self.sweep = retention.Sweep()

    def _group(self) -> None:
        """Cleaning first: what follows it in the batch must not write its rows again."""
        commands: list[Command[Any]] = [
            RemoveRows(batch=self.sweep.batch, silent=self.sweep.silent),
            ExpireTransactions(),
            MarkAborted(),
        ]
        self.sweep = retention.Sweep()
        commands += [self._some() for _ in range(self.random.randint(1, 4))]
        self.random.shuffle(commands)
        for command, answer in zip(commands, self.core.batch(*commands), strict=True):
            self._note(command, answer)

    def _some(self) -> Command[Any]:
        ttl = self.random.choice([0, 1, 2])
        match self.random.randrange(6):
            case 0:
                return Start(timeout_seconds=self.random.choice([1, 60]))
            case 1 if self.open:
                pointer = self.random.choice(self.open)
                return self.random.choice([Abort(pointer=pointer), Abort(pointer=pointer), _commit(pointer)])
            case 2 if self.details:
                pointer, detail = self.random.choice(self.details)
                assert detail.first is not None and detail.last is not None
                return Rollback(namespace=NAMESPACE, name="t", pointer=pointer, first=detail.first, last=detail.last)
            case 3 if self.open:
                pointer = self.random.choice(self.open)
                return Store(namespace=NAMESPACE, name="t", messages=[LoggedMessage(b"s")], pointer=pointer)
            case _:
                pointer = self.random.choice([0, *self.open]) or None  # type: ignore[assignment]
                messages = [LoggedMessage(b"m", ttl)] * self.random.randint(0 if pointer else 1, 30)
                return Publish(namespace=NAMESPACE, name="t", messages=messages, pointer=pointer)

    def _note(self, command: Command[Any], answer: Any) -> None:
        if isinstance(answer, MessagingError):
            return
        if isinstance(command, Start):
            self.open.append(answer.transaction.pointer)
        if isinstance(command, Publish) and command.pointer is not None:
            self.details.append((command.pointer, answer))


def _commit(pointer: int) -> Commit:
    return Commit(pointer=pointer, changes=[])


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "SETTLE_ROWS_MAX", 5)


@pytest.mark.verify
def test_what_is_removed_does_not_come_back() -> None:
    """In any order of commands, with the smallest possible slices."""
    for seed in range(SEEDS):
        world = World(seed)
        world.play()
        assert world.left() == 0, f"seed {seed}: {world.left()} rows are left"


@pytest.mark.verify
def test_the_law_notices_marks_that_ignore_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The former race: some worlds keep rows forever."""
    monkeypatch.setattr(Batch, "is_removed", lambda batch, key: False)
    monkeypatch.setattr(retention, "_was_written_again", lambda removed, begin: False)
    left = 0
    for seed in range(SEEDS):
        world = World(seed)
        try:
            world.play()
            left += world.left() > 0
        except AssertionError:
            left += 1
    assert left > 3


def test_rows_written_again_into_a_removed_range_go_at_once() -> None:
    """All of them in one pass, not one each."""
    core = Core()
    core.create("t", ttl_seconds=TTL_SECONDS)
    core.do(publish("t", *["m"] * 50))
    with core.kv.snapshot() as snapshot:
        prefix = keys.table(keys.MESSAGE, core.topic("t"))
        rows = list(snapshot.scan(prefix, keys.above(prefix)))
    core.now_ms += TTL_SECONDS * 1000 + 1
    again = Batch()
    for key, value in rows[:40]:
        again.put(key, value)
    for batch in (None, again, None):
        with core.kv.snapshot() as snapshot:
            found = retention.sweep(snapshot, core.topic("t"), core.now_ms)
        core.do(RemoveRows(batch=batch or found.batch))
    with core.kv.snapshot() as snapshot:
        assert list(snapshot.scan(prefix, keys.above(prefix))) == []


def test_a_producer_that_comes_back_while_it_is_forgotten_is_known() -> None:
    """It seemed silent, and is back in the batch before or in the same one: its sequences stay known."""
    for is_same_batch in (True, False):
        core = Core()
        core.create("t")
        core.do(publish("t", "a", producer=producer(1)))
        core.now_ms += (RETENTION_SECONDS_MIN + 1) * 1000
        with core.kv.snapshot() as snapshot:
            found = retention.sweep(snapshot, core.topic("t"), core.now_ms)
        assert len(found.silent) == 1
        remove = RemoveRows(batch=found.batch, silent=found.silent)
        back = publish("t", "b", producer=producer(2))
        if is_same_batch:
            core.batch(back, remove)
        else:
            core.do(back)
            core.do(remove)
        core.restart()
        assert core.do(publish("t", "b", producer=producer(2))).known == (2,)


def test_many_producers_are_looked_at_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are active, the silent ones after them are found."""
    monkeypatch.setattr(retention, "ROWS_MAX", 3)
    core = Core()
    core.create("t")
    for number in range(20):
        core.now_ms += 1
        core.do(publish("t", "a", producer=producer(1, epoch=number)))
    core.now_ms += (RETENTION_SECONDS_MIN + 1) * 1000
    for number in range(10):
        core.do(publish("t", "b", producer=producer(2, epoch=number)))
    resume, silent, more = b"", 0, True
    while more:
        with core.kv.snapshot() as snapshot:
            found = retention.sweep(snapshot, core.topic("t"), core.now_ms, resume)
        silent, more, resume = silent + len(found.silent), bool(found.resume), found.resume
    assert silent >= 10
