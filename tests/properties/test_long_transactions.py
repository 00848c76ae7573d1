"""Every reader against long, renewed, expired and lost transactions: poll, cursor, push subscription and bulk.

A model beside the service knows when each transaction was renewed, and since when which topic waits for it.  Topics
tolerate a wait of different lengths; no transaction ever writes into one of them.  Time advances in steps of seconds
and
of hours, and the service is restarted now and then.  After each step every reader has read the same messages in the
same
order, no topic waits for longer than it tolerates, and the topic without transactions never waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import msgspec
import pyarrow as pa
import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.errors import Conflict
from fairlead_messaging.api.message_id import FIRST, MessageId
from fairlead_messaging.api.requests import PollRequest
from fairlead_messaging.api.responses import Message as Answered
from fairlead_messaging.api.responses import Page as AnsweredPage
from fairlead_messaging.client.cursor import Cursor
from fairlead_messaging.server import validation
from fairlead_messaging.server.log import bulk, bulk_page
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.subscriptions import push_page
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.commands import (
    Abort,
    Commit,
    ExpireTransactions,
    MarkAborted,
    RenewTransaction,
    Start,
    Store,
)
from fairlead_messaging.server.transactions.transaction import TransactionLimits, TransactionView

HOLD_UP_SECONDS = {"patient": 0, "short": 60, "long": 5000, "untouched": 0}
"""Per topic; 0: what the service allows."""
LIMITS = TransactionLimits(timeout_seconds_max=600, lifetime_seconds_max=900, hold_up_seconds_max=600)


@dataclass
class Known:
    """A transaction as its client knows it; times in milliseconds."""

    started_ms: int
    timeout_ms: int
    expires_ms: int
    held_ms: dict[str, int] = field(default_factory=dict)
    stored: dict[str, list[str]] = field(default_factory=dict)
    """By topic: not published yet; an empty list where all of it is.  Rows may come before these and not after."""

    def unpublished(self) -> list[str]:
        return [topic for topic, payloads in self.stored.items() if payloads]

    def end(self) -> tuple[int, str]:
        last_ms = self.started_ms + int(LIMITS.lifetime_seconds_max * 1000)
        ends = [(self.expires_ms, "lifetime" if self.expires_ms >= last_ms else "timeout")]
        ends += [(since + bears_ms(topic), "hold_up") for topic, since in self.held_ms.items()]
        return min(ends)


def bears_ms(topic: str) -> int:
    return int((HOLD_UP_SECONDS[topic] or LIMITS.hold_up_seconds_max) * 1000)


class Readers:
    """One of each kind on a topic, each where it stopped, and what it has read."""

    def __init__(self, core: Core, topic: str) -> None:
        self.core, self.topic = core, topic
        self.polled, self.pushed, self.bulk = FIRST, FIRST, FIRST
        self.cursor = Cursor(NAMESPACE, topic, follow=True, limit=3)
        self.seen: dict[str, list[str]] = {"poll": [], "cursor": [], "push": [], "bulk": []}

    def go_on(self) -> None:
        """As far as each gets."""
        while (page := self.core.page(self.topic, after=self.polled, limit=2, committed=True)).ids:
            self.polled = page.next_position
            self.seen["poll"] += [payload.decode() for payload in page.payloads]
        while messages := self.cursor.take(self._answer()):
            self.seen["cursor"] += [message.payload.decode() for message in messages]
        with self.core.kv.snapshot() as snapshot:
            topic, now_ms = self.core.topic(self.topic), self.core.now_ms
            while True:
                push = push_page.read(snapshot, topic, after=self.pushed, limit=4, bytes_max=10**6, now_ms=now_ms)
                self.seen["push"] += [item.payload.decode() for item in push.items]
                self.pushed = push.end
                if push.complete:
                    break
            view = TransactionView(snapshot)
            held = visibility.first_uncommitted(snapshot, view, topic, now_ms=now_ms, after=self.bulk)
            upto = bulk.last_stable(snapshot, topic, held)
            read = bulk_page.read(
                snapshot, topic, after=self.bulk, upto=upto, limit=10**6, bytes_max=10**9, now_ms=now_ms,
                states=visibility.row_states(view, None, read_committed=True),
            )  # fmt: skip
            table = pa.ipc.open_stream(b"".join(read.parts)).read_all()
            self.seen["bulk"] += [payload.decode() for payload in table.column("payload").to_pylist()]
            self.bulk = max(self.bulk, MessageId(upto))

    def _answer(self) -> AnsweredPage:
        """What the service would answer the cursor."""
        asked = msgspec.json.decode(self.cursor.ask().body or b"", type=PollRequest)
        page = self.core.page(self.topic, after=validation.start(asked), limit=asked.limit or 1, committed=True)
        messages = [Answered(each.hex(), payload) for each, payload in zip(page.ids, page.payloads, strict=True)]
        return AnsweredPage(messages=tuple(messages), next_position=page.next_position.hex())


class History:
    """A service, and the model beside it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.core = Core(limits=LIMITS)
        for topic, seconds in HOLD_UP_SECONDS.items():
            self.core.create(topic, 10**7, **({"hold_up_seconds_max": str(seconds)} if seconds else {}))
        self.known: dict[int, Known] = {}
        self.rows: dict[str, list[tuple[int, str]]] = {topic: [] for topic in HOLD_UP_SECONDS}
        """(pointer or 0, payload) in order of publication."""
        self.states: dict[int, str] = {0: "committed"}
        self.readers = {topic: Readers(self.core, topic) for topic in HOLD_UP_SECONDS}
        self.names = 0
        self.refused: set[str] = set()

    def step(self) -> None:
        self.random.choice(
            [self.plain, self.plain, self.begin, self.renew, self.renew, self.renew, self.inside, self.inside,
             self.store, self.reference, self.finish, self.wait, self.wait, self.chores]
        )()  # fmt: skip

    def payloads(self) -> list[str]:
        self.names += 1
        return [f"m{self.names}.{index}" for index in range(self.random.choice([1, 1, 3]))]

    def plain(self) -> None:
        topic, payloads = self.random.choice(list(HOLD_UP_SECONDS)), self.payloads()
        self.core.do(publish(topic, *payloads))
        self.rows[topic] += [(0, payload) for payload in payloads]

    def begin(self) -> None:
        seconds, now_ms = self.random.choice([5, 30, 600]), self.core.now_ms
        pointer = self.core.do(Start(timeout_seconds=seconds)).transaction.pointer
        self.known[pointer] = Known(now_ms, seconds * 1000, now_ms + seconds * 1000)
        self.states[pointer] = "open"

    def some(self) -> tuple[int, Known] | None:
        """Open as far as its client knows; its time may be up."""
        return self.random.choice(list(self.known.items())) if self.known else None

    def try_on(self, pointer: int, known: Known, command: object) -> bool:
        """Whether it was done; refused exactly when its time was up, with the reason the model has."""
        at_ms, ended_by = known.end()
        try:
            self.core.do(command)  # type: ignore[arg-type]
        except Conflict as over:
            assert over.facts == {"state": "invalid", "ended_by": ended_by}
            assert self.core.now_ms > at_ms
            self.refused.add(ended_by)
            del self.known[pointer]
            return False
        assert self.core.now_ms <= at_ms
        return True

    def renew(self) -> None:
        if (some := self.some()) is not None:
            pointer, known = some
            seconds = self.random.choice([None, None, 30, 600])
            if self.try_on(pointer, known, RenewTransaction(pointer=pointer, timeout_seconds=seconds)):
                known.timeout_ms = seconds * 1000 if seconds else known.timeout_ms
                last_ms = known.started_ms + int(LIMITS.lifetime_seconds_max * 1000)
                known.expires_ms = min(self.core.now_ms + known.timeout_ms, last_ms)

    def inside(self) -> None:
        if (some := self.some()) is not None:
            topic, payloads = self.random.choice(["patient", "short", "long"]), self.payloads()
            if topic not in some[1].stored and self.try_on(*some, publish(topic, *payloads, pointer=some[0])):
                some[1].held_ms.setdefault(topic, self.core.now_ms)
                self.rows[topic] += [(some[0], payload) for payload in payloads]

    def store(self) -> None:
        if (some := self.some()) is not None:
            topic, payloads = self.random.choice(["patient", "short", "long"]), self.payloads()
            messages = [LoggedMessage(payload.encode()) for payload in payloads]
            if self.try_on(*some, Store(namespace=NAMESPACE, name=topic, messages=messages, pointer=some[0])):
                some[1].stored.setdefault(topic, []).extend(payloads)

    def reference(self) -> None:
        if (some := self.some()) is not None and some[1].unpublished():
            self.publish_stored(*some)

    def publish_stored(self, pointer: int, known: Known) -> None:
        topic = self.random.choice(known.unpublished())
        if self.try_on(pointer, known, publish(topic, pointer=pointer)):
            known.held_ms.setdefault(topic, self.core.now_ms)
            self.rows[topic] += [(pointer, payload) for payload in known.stored[topic]]
            known.stored[topic] = []

    def finish(self) -> None:
        if (some := self.some()) is not None:
            pointer, known = some
            commits = self.random.random() < 0.7
            if commits and known.unpublished():
                self.publish_stored(pointer, known)  # a commit would be refused
                return
            command = Commit(pointer=pointer, changes=[]) if commits else Abort(pointer=pointer)
            if self.try_on(pointer, known, command):
                self.states[pointer] = "committed" if commits else "gone"
                del self.known[pointer]

    def wait(self) -> None:
        self.core.now_ms += self.random.choice([1, 1000, 4000, 25_000, 25_000, 400_000, 3_600_000])

    def chores(self) -> None:
        self.core.do(MarkAborted())
        if self.random.random() < 0.5:
            self.core.restart()

    # --- the law

    def expected(self, topic: str) -> list[str]:
        seen = []
        for pointer, payload in self.rows[topic]:
            if self.states[pointer] == "open":
                break
            if self.states[pointer] == "committed":
                seen.append(payload)
        return seen

    def judge(self) -> None:
        is_open = {pointer for pointer, state in self.states.items() if state == "open"}
        due = {each for each in is_open & set(self.known) if self.core.now_ms > self.known[each].end()[0]}
        told = is_open - set(self.known)  # a client was refused before the service ended it
        ended = {each.pointer for each in self.core.do(ExpireTransactions())}
        assert ended == due | told
        for pointer in ended:
            self.states[pointer] = "gone"
        for topic, readers in self.readers.items():
            readers.go_on()
            for kind, seen in readers.seen.items():
                assert seen == self.expected(topic), (topic, kind)
            with self.core.kv.snapshot() as snapshot:
                held = visibility.first_uncommitted(
                    snapshot, TransactionView(snapshot), self.core.topic(topic), now_ms=self.core.now_ms
                )
            assert held is None or self.core.now_ms - held.since_ms <= bears_ms(topic)
        assert self.readers["untouched"].seen["poll"] == [payload for _, payload in self.rows["untouched"]]


@pytest.mark.parametrize("seed", range(25))
def test_every_reader_sees_one_sequence_and_waits_no_longer_than_its_topic_bears(seed: int) -> None:
    history = History(seed)
    for _ in range(80):
        history.step()
        history.judge()


def test_the_histories_end_transactions_in_every_way() -> None:
    """Otherwise they would prove less than they claim."""
    refused: set[str] = set()
    for seed in range(25):
        history = History(seed)
        for _ in range(80):
            history.step()
        refused |= history.refused
    assert refused == {"timeout", "lifetime", "hold_up"}
