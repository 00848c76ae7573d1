"""Every way to read a topic against a model that knows no rows, snapshots or marks: only what was published and when.

Histories of publishes (plain, transactional, stored payloads), times to live of messages and of the topic, commits,
aborts, timeouts, rollbacks, cleaning, marking and restarts; clock forward and back.  After each step JSON pages, Arrow
pages and plans from a random start are what the model says.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pyarrow as pa
import pytest
from tests.support.dose import dose
from tests.support.topics.messaging_core import NAMESPACE, Core

from fairlead_messaging.api.message_id import FIRST, MessageId, timestamp_of
from fairlead_messaging.server import retention
from fairlead_messaging.server.commands import Publish, PublishedAt, RemoveRows, UpdateTopic
from fairlead_messaging.server.log import bulk, bulk_page
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.commands import (
    Abort,
    Commit,
    ExpireTransactions,
    MarkAborted,
    Rollback,
    Start,
    Store,
)
from fairlead_messaging.server.transactions.transaction import TransactionView

TOPIC = "t"
TIMEOUT_SECONDS = 20.0


@dataclass(slots=True)
class PublishedMessage:
    """A message as its publisher knows it; ``state``: plain, open, committed or gone."""

    id: MessageId
    payload: str
    ttl_seconds: int
    pointer: int = 0
    state: str = "plain"


class History:
    """A service, and the model beside it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.core = Core()
        self.ttl_seconds = 60
        self.core.create(TOPIC, self.ttl_seconds)
        self.published_messages: list[PublishedMessage] = []
        self.open: dict[int, int] = {}
        self.committed: set[int] = set()
        self.stored: set[int] = set()
        self.details: list[tuple[int, PublishedAt]] = []
        self.starts = [FIRST]
        self.names = 0
        self.bound_ms = 0

    def step(self) -> None:
        twice = [self.plain, self.inside, self.end, self.time]
        self.random.choice([*twice, *twice, self.begin, self.reference, self.undo, self.chores, self.ttl])()

    # --- what is done to the service, and noted in the model

    def messages(self) -> list[LoggedMessage]:
        count = self.random.choice([1, 1, 2, 5])
        ttls = [self.random.choice([0, 0, 1, 3, 10]) for _ in range(count)]
        self.names += count
        return [LoggedMessage(f"m{self.names + index}".encode(), ttl) for index, ttl in enumerate(ttls)]

    def note(self, ids: list[MessageId], messages: list[LoggedMessage], pointer: int, state: str) -> None:
        for message_id, (payload, ttl_seconds) in zip(ids, messages, strict=True):
            self.published_messages.append(PublishedMessage(message_id, payload.decode(), ttl_seconds, pointer, state))

    def plain(self) -> None:
        messages = self.messages()
        ids = self.published(messages, None)
        self.note(ids, messages, 0, "plain")

    def published(self, messages: list[LoggedMessage], pointer: int | None) -> list[MessageId]:
        """The ids of the new rows: what a reader of everything sees now and did not see before."""
        asked = Publish(namespace=NAMESPACE, name=TOPIC, messages=messages, pointer=pointer)
        with self.core.kv.snapshot() as snapshot:
            before = bulk.last_stable(snapshot, self.core.topic(TOPIC), None)
        answer = self.core.do(asked)
        if pointer is not None:
            self.details.append((pointer, answer))
        return self.core.page(TOPIC, after=before).ids

    def begin(self) -> None:
        pointer = self.core.do(Start(timeout_seconds=TIMEOUT_SECONDS)).transaction.pointer
        self.open[pointer] = self.core.now_ms + int(TIMEOUT_SECONDS * 1000)

    def some_open(self) -> int | None:
        living = [pointer for pointer, expires_ms in self.open.items() if self.core.now_ms <= expires_ms]
        return self.random.choice(living) if living else None

    def inside(self) -> None:
        pointer = self.some_open()
        if pointer is not None and pointer not in self.stored:  # rows are not taken behind stored payloads
            messages = self.messages()
            self.note(self.published(messages, pointer), messages, pointer, "open")

    def reference(self) -> None:
        if (pointer := self.some_open()) is not None:
            messages = self.messages()
            self.core.do(Store(namespace=NAMESPACE, name=TOPIC, messages=messages, pointer=pointer))
            self.stored.add(pointer)
            self.note(self.published([], pointer), messages, pointer, "open")

    def end(self) -> None:
        if (pointer := self.some_open()) is not None:
            commits = self.random.random() < 0.5
            self.core.do(Commit(pointer=pointer, changes=[]) if commits else Abort(pointer=pointer))
            self.decide(pointer, "committed" if commits else "gone")

    def decide(self, pointer: int, state: str) -> None:
        self.open.pop(pointer)
        if state == "committed":
            self.committed.add(pointer)
        for each in self.published_messages:
            if each.pointer == pointer and each.state == "open":
                each.state = state

    def undo(self) -> None:
        """A correct detail of a transaction that did not commit is always accepted, however late or often."""
        if self.details:
            pointer, answer = self.random.choice(self.details)
            if pointer in self.committed:
                return
            assert answer.first is not None and answer.last is not None
            self.core.do(
                Rollback(namespace=NAMESPACE, name=TOPIC, pointer=pointer, first=answer.first, last=answer.last)
            )
            for each in self.published_messages:
                if each.pointer == pointer and answer.first.encode() <= each.id[:10] <= answer.last.encode():
                    each.state = "gone"

    def time(self) -> None:
        self.core.now_ms += self.random.choice([1, 300, 1001, 4000, -500])

    def chores(self) -> None:
        if self.random.random() < 0.5:
            self.core.do(MarkAborted())
        with self.core.kv.snapshot() as snapshot:
            found = retention.sweep(snapshot, self.core.topic(TOPIC), self.core.now_ms)
        self.bound_ms = max(self.bound_ms, self.core.now_ms)
        self.core.do(RemoveRows(batch=found.batch))
        if self.random.random() < 0.3:
            self.core.restart()

    def ttl(self) -> None:
        # Only longer: what a shorter one let cleaning remove would have to live again in the model.
        self.ttl_seconds += self.random.choice([0, 5])
        self.core.do(UpdateTopic(namespace=NAMESPACE, name=TOPIC, ttl_seconds=self.ttl_seconds, properties={}))

    # --- the law

    def expect(self, after: MessageId, *, committed: bool) -> list[str]:
        """What the model says a reader sees behind a start, at the time that cleaning has seen at the latest."""
        seen = []
        for each in sorted(self.published_messages, key=lambda published_messages: published_messages.id):
            age_ms = self.core.now_ms - timestamp_of(each.id)
            if each.id <= after or age_ms > self.ttl_seconds * 1000:
                continue
            if each.ttl_seconds and age_ms > each.ttl_seconds * 1000:
                continue
            if committed and each.state == "open":
                break
            if not committed or each.state != "gone":
                seen.append(each.payload)
        return seen

    def judge(self) -> None:
        self.core.do(ExpireTransactions())
        for pointer, expires_ms in list(self.open.items()):
            if self.core.now_ms > expires_ms:
                self.decide(pointer, "gone")
        if self.core.now_ms < self.bound_ms:
            self.core.now_ms = self.bound_ms  # what cleaning removed later than now is not alive again
        after = self.random.choice([*self.starts[-20:], *[each.id for each in self.published_messages[-20:]]])
        for committed in (True, False):
            for limit in (1, 3, 1000):
                assert self.pages(after, limit, committed=committed) == self.expect(after, committed=committed)
        assert self.arrow(after) == self.expect(after, committed=True)

    def pages(self, after: MessageId, limit: int, *, committed: bool) -> list[str]:
        seen: list[str] = []
        while True:
            page = self.core.page(TOPIC, after=after, limit=limit, committed=committed)
            seen += [payload.decode() for payload in page.payloads]
            assert page.next_position >= after
            if page.complete:
                self.starts.append(page.next_position)
                return seen
            after = page.next_position

    def arrow(self, after: MessageId) -> list[str]:
        """Plan by plan, range by range, as the job does it."""
        seen: list[str] = []
        now_ms = self.core.now_ms
        with self.core.kv.snapshot() as snapshot:
            topic, view = self.core.topic(TOPIC), TransactionView(snapshot)
            while True:
                held = visibility.first_uncommitted(snapshot, view, topic, now_ms=now_ms, after=after)
                stable = bulk.last_stable(snapshot, topic, held)
                found = bulk.plan(
                    snapshot, topic, after=after, upto=stable, limit_rows=4, limit_bytes=10**6, splits=2, now_ms=now_ms
                )
                if not found.ranges:
                    return seen
                for each in found.ranges:
                    page = bulk_page.read(
                        snapshot, topic, after=each.after, upto=each.upto, limit=10**6, bytes_max=10**9, now_ms=now_ms,
                        states=visibility.row_states(view, None, read_committed=True),
                    )  # fmt: skip
                    table = pa.ipc.open_stream(b"".join(page.parts)).read_all()
                    seen += [payload.decode() for payload in table.column("payload").to_pylist()]
                    after = each.upto


@pytest.mark.parametrize("seed", dose(range(40), 15))
def test_every_reader_sees_what_the_model_says(seed: int) -> None:
    history = History(seed)
    for _ in range(70):
        history.step()
        history.judge()
