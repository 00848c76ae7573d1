"""One subscription in a seeded world: the real script, table and cleaning, where everything else fails.

Each write is done, lost, or done with its answer lost; reads fail; the process is killed at any step; the endpoint
accepts, delays, never answers, or refuses permanently; the dead letter topic is missing, takes no plain messages, or is
recreated; the topic is deleted and recreated while a page is out; messages expire, by their own time to live and the
topic's, while cleaning runs; the subscription is replaced; the topic's delivery policy changes, and sometimes overrides
that of the subscription.

Laws: 1 only committed messages of the subscription's generation are pushed, alive and in order; 2 each committed one is
counted once, as delivered, dead-lettered, dropped or expired; 3 what is alive and was not given up was accepted by the
endpoint, and what is counted as dead-lettered was written, once; 4 it never stalls forever.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import asdict
from tests.sim.laws import LawBroken
from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.errors import Conflict, MessagingError, NotFound, Unavailable
from fairlead_messaging.api.message_id import FIRST, parse_hex, timestamp_of
from fairlead_messaging.server import retention
from fairlead_messaging.server.commands import Command, DeleteTopic, Publish, RemoveRows, UpdateTopic
from fairlead_messaging.server.log import bulk, keys, topics
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.producers import NumberedProducer
from fairlead_messaging.server.subscriptions import push, push_page, subscription
from fairlead_messaging.server.subscriptions.changes import PutSubscription, RecordDelivery
from fairlead_messaging.server.subscriptions.push import (
    BackOff,
    Find,
    Load,
    Loaded,
    Push,
    PushPause,
    PushResult,
    ReadPage,
    Save,
    Script,
    Send,
    Step,
    StoreDeadLetter,
)
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.commands import Abort, Commit, MarkAborted, Start, Store
from fairlead_messaging.server.transactions.transaction import TransactionView
from fairlead_wire.delivery_policy import DeliveryPolicy

TOPIC, DEAD = "t", "dead"
TTL_SECONDS = 60
STEPS = 300
CALM_STEPS = 3000
POLICY = DeliveryPolicy(
    retries_with_no_delay=1, minimum_delay_retries=0, minimum_delay=1, maximum_delay=4, maximum_delay_retries=0,
    backoff_retries=2,
)  # fmt: skip


class Said(NamedTuple):
    """What the world knows about one published message."""

    id: bytes
    generation: int
    pointer: int
    expires_ms: int


class PushWorld:
    """``moves_first`` plants the classic mistake, the position before the outcome, which the laws must notice."""

    def __init__(self, seed: int, *, moves_first: bool = False, ignores_generation: bool = False) -> None:
        self.random = Random(seed)
        self.core = Core()
        self.calm = False
        self.names = 0
        self.said: dict[str, Said] = {}
        self.open: dict[int, list[str]] = {}
        self.aborted: set[int] = set()
        self.taken: set[str] = set()
        self.lettered: set[str] = set()
        self.last_sent = b""
        self.started_at, self.started_ms = FIRST, 0
        self.revision = 0
        self.kinds: set[str] = set()
        """The kinds of events that occurred: a law about something that never happens checks nothing."""
        self._moves_first, self._ignores_generation = moves_first, ignores_generation
        self._script: Script | None = None

    def run(self) -> None:
        """Play, calm down, and check every law."""
        self.core.create(TOPIC, ttl_seconds=TTL_SECONDS)
        self.core.create(DEAD, ttl_seconds=10**6)
        for _ in range(STEPS):
            self._step()
            self._happen()
        self._calm_down()
        self._judge()

    # ── the service ──────────────────────────────────────────────────────────────────────────────────────────────

    def _write(self, *commands: Command[Any]) -> list[Any]:
        """One group write, with its fate."""
        fate = 1.0 if self.calm else self.random.random()
        if fate < 0.08:
            self.core.batch(*commands, lost=True)
            self.kinds.add("lost")
            raise Unavailable("the store failed", code="storage_failed")
        answers = self.core.batch(*commands)
        if fate < 0.14:
            self.core.service.forget()
            self.kinds.add("answer lost")
            raise Unavailable("the store failed", code="storage_failed")
        return answers

    def _do(self, command: Command[Any]) -> Any:
        [answer] = self._write(command)
        if isinstance(answer, MessagingError):
            raise answer
        return answer

    def _living(self, name: str = TOPIC) -> TopicGeneration | None:
        try:
            return self.core.topic(name)
        except NotFound:
            return None

    def _record(self) -> SubscriptionRecord | None:
        living = self._living()
        raw = self.core.kv.get(keys.subscription(living, "s")) if living is not None else None
        return subscription.decode(raw) if raw is not None else None

    # ── the pusher: the real script, its steps done here ─────────────────────────────────────────────────────────

    def _step(self) -> None:
        if self._script is None:
            if self._record() is None:
                return
            self._script = Push(lambda: self.core.now_ms, self.random).run()
            self._now: Step | None = next(self._script)
            self._asked_at = (self.core.now_ms, self.started_at)
            self.last_sent = b""
        assert self._now is not None
        if not self.calm and self.random.random() < 0.03:
            self.core.restart()  # kill -9
            self._script = None
            self.kinds.add("killed")
            return
        try:
            result = self._act(self._now)
        except MessagingError as error:
            advance = partial(self._script.throw, error)
        else:
            advance = partial(self._script.send, result)
        try:
            self._now = advance()
            # What happens from now on the script cannot know before its next step.
            self._asked_at = (self.core.now_ms, self.started_at)
        except StopIteration:
            self._script = None

    def _act(self, step: Step) -> Any:
        if not self.calm and self.random.random() < 0.02 and not isinstance(step, Send | PushPause | BackOff):
            raise Unavailable("the store cannot be read", code="storage_failed")
        match step:
            case Load():
                with self.core.kv.snapshot() as snapshot:
                    living = topics.lookup(snapshot, NAMESPACE, TOPIC)
                    found = subscription.of_topic(snapshot, living).get("s")
                if found is None:
                    raise NotFound("gone")
                return Loaded(found, living.generation, subscription.effective_policy(living, found))
            case ReadPage(after=after, generation=generation):
                living = self._of(generation)
                with self.core.kv.snapshot() as snapshot:
                    page = push_page.read(
                        snapshot, living, after=after, limit=7, bytes_max=10**6, now_ms=self.core.now_ms
                    )
                if self._moves_first and page.items:
                    record = self._record()
                    assert record is not None
                    self._do(self._delivery(push.moved_to(record, page.end.hex()), generation, self._policy_digest()))
                return page
            case Find(id=message_id, generation=generation):
                living = self._of(generation)
                with self.core.kv.snapshot() as snapshot:
                    return push_page.find(snapshot, living, message_id, self.core.now_ms)
            case Send(item=item):
                return self._send(item)
            case StoreDeadLetter(item=item):
                return self._write_letter(item)
            case Save(record=record, generation=generation, policy=policy):
                if self._ignores_generation and (current := self._living()) is not None:
                    generation = current.generation
                    policy = self._policy_digest()
                return self._do(self._delivery(record, generation, policy))
            case PushPause(until_ms=until_ms):
                self.core.now_ms = max(self.core.now_ms, min(until_ms, self.core.now_ms + 2000))
                return None
            case BackOff(seconds=seconds):
                self.core.now_ms += int(seconds * 1000)
                return None

    def _delivery(self, record: SubscriptionRecord, generation: int, policy: str) -> RecordDelivery:
        return RecordDelivery(
            namespace=NAMESPACE, name=TOPIC, generation=generation, subscription="s", record=record, policy=policy
        )

    def _policy_digest(self) -> str:
        """The digest of the policy in force."""
        living, record = self._living(), self._record()
        counts = (
            subscription.effective_policy(living, record)
            if living is not None and record is not None
            else DeliveryPolicy()
        )
        return subscription.policy_digest(counts)

    def _of(self, generation: int) -> TopicGeneration:
        living = self.core.topic(TOPIC)
        if living.generation != generation and not self._ignores_generation:
            raise NotFound("another generation")
        return living

    def _send(self, item: push_page.PushItem) -> PushResult:
        name = item.payload.decode()
        said = self.said[name]
        asked_ms, started_at = self._asked_at
        if asked_ms > said.expires_ms:
            raise LawBroken(f"law 1: {name} was pushed after its time")
        if said.pointer in self.open or said.pointer in self.aborted:
            raise LawBroken(f"law 1: {name} was pushed and is not committed")
        if item.id < self.last_sent:
            raise LawBroken(f"law 1: {name} was pushed out of order")
        self.last_sent = item.id
        if said.id <= started_at:
            raise LawBroken(f"law 1: {name} was published before the subscription")
        fate = 1.0 if self.calm else self.random.random()
        if fate < 0.2:
            return PushResult("status 503", retry_after_seconds=self.random.choice([None, 3.0]))
        if fate < 0.4:
            return PushResult("status 400", final=True)
        self.taken.add(name)
        return PushResult("no answer") if fate < 0.5 else PushResult()

    def _write_letter(self, item: push_page.PushItem) -> None:
        producer = NumberedProducer(id=f"s/{item.id.hex()}", epoch=0, sequences=(0,))
        letter = Publish(namespace=NAMESPACE, name=DEAD, messages=[LoggedMessage(item.payload)], producer=producer)
        try:
            self._do(letter)
        except Unavailable:
            raise
        except MessagingError:
            self.kinds.add("letter refused")
            raise
        self.lettered.add(item.payload.decode())

    # ── everybody else ───────────────────────────────────────────────────────────────────────────────────────────

    def _happen(self) -> None:
        deeds = {
            self._publish: 30, self._transact: 8, self._end: 8, self._clean: 8, self._tick: 12,
            self._change_dead_topic: 3, self._put: 2, self._recreate: 1, self._change_policy: 1,
        }  # fmt: skip
        [deed] = self.random.choices(list(deeds), list(deeds.values()))
        try:
            deed()
        except MessagingError:
            return

    def _publish(self) -> None:
        names = self._some()
        ttl = self.random.choice([0, 0, 1, 5])
        messages = [LoggedMessage(name.encode(), ttl) for name in names]
        try:
            self._do(Publish(namespace=NAMESPACE, name=TOPIC, messages=messages))
        finally:
            self._learn(names, 0, ttl)

    def _transact(self) -> None:
        pointer = self._do(Start(timeout_seconds=600)).transaction.pointer
        names = self._some()
        by_reference = self.random.random() < 0.5
        self.open[pointer] = names
        ttl = 0 if by_reference else self.random.choice([0, 3])
        try:
            if by_reference:
                messages = [LoggedMessage(name.encode()) for name in names]
                self._do(Store(namespace=NAMESPACE, name=TOPIC, messages=messages, pointer=pointer))
                self._do(publish(TOPIC, pointer=pointer))
            else:
                messages = [LoggedMessage(name.encode(), ttl) for name in names]
                self._do(Publish(namespace=NAMESPACE, name=TOPIC, messages=messages, pointer=pointer))
        finally:
            self._learn(names, pointer, ttl)

    def _end(self) -> None:
        if not self.open:
            return
        pointer = self.random.choice(sorted(self.open))
        how: Command[Any] = Commit(pointer=pointer, changes=[])
        if self.random.random() < 0.4:
            how = Abort(pointer=pointer)
        try:
            self._do(how)
        finally:
            state = self.core.service.transactions.state(pointer)
            if state != "in_progress":
                del self.open[pointer]
            if state == "aborted":
                self.aborted.add(pointer)

    def _learn(self, names: list[str], pointer: int, ttl: int) -> None:
        """Record the ids of what was just published, whatever the answer was."""
        living = self._living()
        if living is None:
            return
        page = self.core.page(TOPIC, limit=10**6)
        expiry = {}
        for message_id, payload in zip(page.ids, page.payloads, strict=True):
            expiry[payload.decode()] = message_id
        for name in names:
            if name in expiry:
                expires_ms = timestamp_of(expiry[name]) + min(ttl or TTL_SECONDS, TTL_SECONDS) * 1000
                self.said[name] = Said(expiry[name], living.generation, pointer, expires_ms)

    def _some(self) -> list[str]:
        count = self.random.randint(1, 4)
        self.names += count
        return [f"m{number}" for number in range(self.names - count, self.names)]

    def _clean(self) -> None:
        record = topics.record(self.core.kv, NAMESPACE, TOPIC)
        assert record is not None
        with self.core.kv.snapshot() as snapshot:
            found = retention.sweep(snapshot, record, self.core.now_ms)
        # In one batch, so that what is removed and what is marked meet.
        self._write(RemoveRows(batch=found.batch, silent=found.silent), MarkAborted())

    def _tick(self) -> None:
        self.core.now_ms += self.random.choice([0, 1, 100, 1000, 3000, 20_000])

    def _change_dead_topic(self) -> None:
        names: dict[str, Any] = {"namespace": NAMESPACE, "name": DEAD}
        match self.random.choice(["delete", "create", "required", "allowed"]):
            case "delete":
                self._do(DeleteTopic(**names))
                self.kinds.add("dead letter topic missing")
            case "create":
                self.core.create(DEAD, ttl_seconds=10**6)
            case how:
                self._do(UpdateTopic(**names, ttl_seconds=10**6, properties={"transactional": how}))

    def _put(self) -> None:
        living = self._living()
        if living is None:
            return
        with self.core.kv.snapshot() as snapshot:
            held = visibility.first_uncommitted(snapshot, TransactionView(snapshot), living, now_ms=self.core.now_ms)
            position = bulk.shown(bulk.last_stable(snapshot, living, held))
        before = self._record()
        self.revision += 1
        record = SubscriptionRecord(
            url="http://x", delivery=self.random.choice([asdict(POLICY), None]), position=position,
            revision="" if self._ignores_generation else str(self.revision),
            dead_letter_topic=self.random.choice([f"{NAMESPACE}/{DEAD}", f"{NAMESPACE}/{DEAD}", None]),
        )  # fmt: skip
        try:
            self._do(PutSubscription(namespace=NAMESPACE, name=TOPIC, subscription="s", record=record))
        finally:
            if before is None and self._record() is not None:
                self.started_at = parse_hex(position) if position else FIRST
                self.started_ms = self.core.now_ms

    def _change_policy(self) -> None:
        """Change the topic's policy: deliveries begun under another policy start again."""
        given = self.random.choice([None, {**asdict(POLICY), "ignore_subscription_override": True}, asdict(POLICY)])
        update = UpdateTopic(namespace=NAMESPACE, name=TOPIC, ttl_seconds=TTL_SECONDS, properties={}, delivery=given)
        self._do(update)
        self.kinds.add("policy changed")

    def _recreate(self) -> None:
        """While a page may be out; sometimes with a subscription of the same name."""
        try:
            self._do(DeleteTopic(namespace=NAMESPACE, name=TOPIC))
        finally:
            if self._living() is None:
                self.kinds.add("recreated")
                self.core.create(TOPIC, ttl_seconds=TTL_SECONDS)
                if self.random.random() < 0.7:
                    self._put()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _calm_down(self) -> None:
        self.calm = True
        for pointer in sorted(self.open):
            try:
                self.core.do(Commit(pointer=pointer, changes=[]))
            except Conflict:  # the publish of what it stored was lost
                self.core.do(Abort(pointer=pointer))
                self.aborted.add(pointer)
        self.open.clear()
        if self._living(DEAD) is None:
            self.core.create(DEAD, ttl_seconds=10**6)
        self.core.do(UpdateTopic(namespace=NAMESPACE, name=DEAD, ttl_seconds=10**6, properties={}))
        if self._record() is None:
            self._put()
        if self._script is None:
            self._step()
        for _ in range(CALM_STEPS):
            if isinstance(self._now, ReadPage) and self._is_done(self._now):
                return
            self._step()
        raise LawBroken(f"law 4: it stands still at {self._now}")

    def _is_done(self, read: ReadPage) -> bool:
        record = self._record()
        assert record is not None
        if record.undeliverable:
            self.core.now_ms += 1000
            return False
        with self.core.kv.snapshot() as snapshot:
            page = push_page.read(
                snapshot, self.core.topic(TOPIC), after=read.after, limit=1, bytes_max=1, now_ms=self.core.now_ms
            )
        return not page.is_enough(read.after)

    def _judge(self) -> None:
        record, living = self._record(), self._living()
        assert record is not None and living is not None
        ours = {
            name: said
            for name, said in self.said.items()
            if said.generation == living.generation and said.id > self.started_at
        }
        # What was over before its transaction was decided counts as expired, however that ended; what was over before
        # the subscription began, behind an undecided message, may be removed by then.
        committed = {
            name
            for name, said in ours.items()
            if said.pointer not in self.aborted and said.expires_ms >= self.started_ms
        }
        may_count = len(ours) - len(committed)
        counted = record.delivered + record.dead_lettered + record.dropped + record.expired
        if not len(committed) <= counted <= len(committed) + may_count:
            raise LawBroken(f"law 2: {len(committed)} committed, {counted} counted: {record}")
        alive = {name for name in committed if ours[name].expires_ms >= self.core.now_ms}
        lost = alive - self.taken - self.lettered
        if len(lost) > record.dropped:
            raise LawBroken(f"law 3: neither taken nor written: {sorted(lost)}")
        if record.delivered > len(self.taken & ours.keys()) or record.dead_lettered > len(self.lettered & ours.keys()):
            raise LawBroken(f"law 3: more counted than happened: {record}")
        letters = self.core.read(DEAD, limit=10**6)
        if len(letters) != len(set(letters)):
            raise LawBroken("law 3: a dead letter was written twice")
