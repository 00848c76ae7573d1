"""Pushes the messages of subscriptions: one task for each, so that a dead endpoint delays no other.

What is done in which order is ``push``'s; here it is done.  A look at the table every few seconds starts what is
missing and ends what is gone, so that no request cut short leaves a subscription without its task.
"""

from __future__ import annotations

import asyncio
import resource
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import aiohttp

from fairlead_messaging.api.errors import MessagingError, NotFound
from fairlead_messaging.server.commands import Publish
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.endpoint_resolver import EndpointResolver
from fairlead_messaging.server.io.metrics import Metrics
from fairlead_messaging.server.log import keys, topics
from fairlead_messaging.server.log.message import Message
from fairlead_messaging.server.log.topic import Topic
from fairlead_messaging.server.producers.producer import Producer
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.subscriptions import dead_letter, endpoint, push_page, subscription
from fairlead_messaging.server.subscriptions.commands import RecordDelivery
from fairlead_messaging.server.subscriptions.progress import REASON_CHARS_MAX
from fairlead_messaging.server.subscriptions.push import (
    Find,
    Load,
    Note,
    Pause,
    Push,
    Read,
    Rest,
    Send,
    Sent,
    Step,
    WriteLetter,
)
from fairlead_messaging.server.subscriptions.push_page import Item, PushPage
from fairlead_messaging.server.subscriptions.subscription import SUBSCRIPTIONS_MAX, Subscription
from fairlead_wire.io import logs

REQUEST_TIMEOUT_SECONDS = 10.0
PAGE_MESSAGES = 100
PAGE_BYTES = 4 * 1024 * 1024
LOOK_SECONDS = 5.0
"""How soon a subscription whose task is missing gets one."""
PAUSE_SECONDS_MAX = 1.0
"""The clock is looked at so often while waiting for a time: it may step."""
DEFECT_PAUSE_SECONDS = 5.0

Name = tuple[str, str, str]
"""Namespace, topic, subscription."""

_log = logs.get("messaging.pusher")


@dataclass(slots=True, kw_only=True)
class _Running:
    """The task of one subscription; ``trouble`` is what holds it up beside its endpoint, "" when nothing does."""

    push: Push
    task: asyncio.Task[None] | None = None
    trouble: str = ""
    record: Subscription | None = field(default=None)
    """As it stands on disk, as far as this task knows."""


class Pusher:
    """Starts and stops the tasks as subscriptions come and go."""

    def __init__(self, broker: Broker, metrics: Metrics) -> None:
        self._broker = broker
        self._metrics = metrics
        self._random = Random()
        self._running: dict[Name, _Running] = {}
        self._session: aiohttp.ClientSession | None = None
        self._resolver = EndpointResolver()
        self._looking: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        return len(self._running)

    def trouble(self, name: Name) -> str:
        """What holds a subscription up beside its endpoint: the store, or a defect; "" when nothing does."""
        running = self._running.get(name)
        return running.trouble if running is not None else ""

    async def start(self) -> None:
        """Go on with every subscription there is, and see to it that none is left alone."""
        self._looking = asyncio.create_task(self._look_for_ever())

    def renew(self, name: Name) -> None:
        """Begin with a subscription, or begin again after it was changed; one that is gone just ends."""
        self._end(name)
        running = _Running(push=Push(self._broker.now_ms, self._random))
        self._running[name] = running
        running.task = asyncio.create_task(self._push(name, running))
        running.task.add_done_callback(lambda _: self._forget(name, running))

    async def close(self) -> None:
        tasks = [each.task for each in self._running.values() if each.task is not None]
        if self._looking is not None:
            tasks.append(self._looking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()

    def _end(self, name: Name) -> None:
        before = self._running.pop(name, None)
        if before is not None and before.task is not None:
            before.task.cancel()

    def _forget(self, name: Name, running: _Running) -> None:
        if self._running.get(name) is running:
            del self._running[name]

    async def _look_for_ever(self) -> None:
        while True:
            try:
                await self._look()
            except MessagingError as error:
                _log.warning("subscriptions_not_read", reason=error.message, remedy="the store is tried again")
            except Exception:  # noqa: BLE001 - a record that cannot be read must not leave all others without their tasks
                _log.exception("subscriptions_not_read")
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        before = dict(self._running)

        def every(snapshot: Snapshot) -> dict[Name, str]:
            return {found[:3]: found[3].revision for found in subscription.every(snapshot)}

        there = await self._broker.read(every)
        for name, running in before.items():
            if name not in there and self._running.get(name) is running:
                self._end(name)
        for name, revision in there.items():
            running_now = self._running.get(name)
            if running_now is None or (
                before.get(name) is running_now
                and running_now.record is not None
                and running_now.push.revision != revision
            ):
                self.renew(name)

    async def _push(self, name: Name, running: _Running) -> None:
        while not self._broker.closing:
            try:
                await self._run(name, running)
                return
            except Exception:  # noqa: BLE001 - a defect must not end a subscription for good
                _log.exception("push_failed", topic="/".join(name[:2]), subscription=name[2])
                running.trouble = "a defect of the service; its log says more"
                self._metrics.push_failures.inc()
                await asyncio.sleep(DEFECT_PAUSE_SECONDS)
                running.push = Push(self._broker.now_ms, self._random)

    async def _run(self, name: Name, running: _Running) -> None:
        script = running.push.run()
        step: Step = next(script)
        while not self._broker.closing:
            try:
                result = await self._act(name, running, step)
            except MessagingError as error:
                advance: Any = partial(script.throw, error)
            else:
                advance = partial(script.send, result)
            try:
                step = advance()
            except StopIteration:
                return

    async def _act(self, name: Name, running: _Running, step: Step) -> Any:
        match step:
            case Load():
                loaded = await self._load(name)
                running.record, running.trouble = loaded[0], ""
                return loaded
            case Read():
                return await self._read(name, step)
            case Find(id=message_id, generation=generation):
                return await self._broker.read(
                    lambda snapshot: push_page.find(
                        snapshot, _of_generation(snapshot, name, generation), message_id, self._broker.now_ms()
                    )
                )
            case Send(url=url, item=item):
                return await self._send(name, url, item)
            case WriteLetter(item=item, topic=topic):
                return await self._write_letter(name, item, topic)
            case Note(record=record, generation=generation):
                return await self._note(name, running, record, generation)
            case Pause(until_ms=until_ms):
                while (left_ms := until_ms - self._broker.now_ms()) > 0 and not self._broker.closing:  # noqa: ASYNC110
                    await asyncio.sleep(min(left_ms / 1000, PAUSE_SECONDS_MAX))
                return None
            case Rest(seconds=seconds, reason=reason):
                if reason != running.trouble:
                    _log.warning("push_paused", topic="/".join(name[:2]), subscription=name[2], reason=reason)
                running.trouble = reason
                self._metrics.push_failures.inc()
                return await asyncio.sleep(seconds)

    async def _load(self, name: Name) -> tuple[Subscription, int]:
        def look(snapshot: Snapshot) -> tuple[Subscription, int]:
            living = topics.lookup(snapshot, name[0], name[1])
            raw = snapshot.get(keys.subscription(living, name[2]))
            if raw is None:
                raise NotFound(f"subscription {name[2]} does not exist", code="subscription_not_found")
            return subscription.decode(raw), living.generation

        return await self._broker.read(look)

    async def _read(self, name: Name, step: Read) -> PushPage:
        def look(snapshot: Snapshot) -> PushPage:
            return push_page.read(
                snapshot,
                _of_generation(snapshot, name, step.generation),
                after=step.after,
                limit=PAGE_MESSAGES,
                bytes_max=PAGE_BYTES,
                now_ms=self._broker.now_ms(),
            )

        return await self._broker.read_until(name[:2], look, lambda page: page.is_enough(step.after), step.wait_ms)

    async def _send(self, name: Name, url: str, item: Item) -> Sent:
        if self._session is None:
            # One connection for each subscription: with fewer, those to endpoints that do not answer keep others out.
            limit = min(SUBSCRIPTIONS_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8)
            connector = aiohttp.TCPConnector(resolver=self._resolver, limit=limit)
            timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        headers = {
            "Content-Type": "application/octet-stream",
            "Fairlead-Message-Id": item.id.hex(),
            "Fairlead-Topic": "/".join(name[:2]),
            "Fairlead-Subscription": name[2],
        }
        try:
            async with self._session.post(url, data=item.payload, headers=headers, allow_redirects=False) as response:
                status, asked = response.status, response.headers.get("Retry-After", "")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return Sent((str(error) or type(error).__name__)[:REASON_CHARS_MAX])
        if endpoint.is_delivered(status):
            return Sent()
        return Sent(f"status {status}", endpoint.is_final(status), endpoint.asked_seconds(asked))

    async def _write_letter(self, name: Name, item: Item, dead_letter_topic: str) -> None:
        namespace, topic = dead_letter.topic_names(dead_letter_topic)
        # A producer of its own for each message: a crash between the two writes stores the dead letter once.
        producer = Producer(id=dead_letter.producer_id(name, item.id.hex()), epoch=0, sequences=(0,))
        letter = Publish(namespace=namespace, name=topic, messages=[Message(item.payload)], producer=producer)
        await self._broker.change(letter, len(item.payload))

    async def _note(self, name: Name, running: _Running, record: Subscription, generation: int) -> None:
        await self._broker.change(
            RecordDelivery(namespace=name[0], name=name[1], generation=generation, subscription=name[2], record=record)
        )
        before, running.record = running.record, record
        assert before is not None
        label = "/".join(name[:2])
        for outcome in ("delivered", "dead_lettered", "dropped", "expired"):
            count = getattr(record, outcome) - getattr(before, outcome)
            if count > 0:
                self._metrics.pushed.labels(label, name[2], outcome).inc(count)
        if len(record.undeliverable) > len(before.undeliverable):
            _log.warning(
                "dead_letter_waits", topic=label, subscription=name[2], id=record.undeliverable[-1].id,
                dead_letter_topic=record.dead_letter_topic, reason=record.dead_letter_error,
                remedy="create the topic, or let it take plain messages",
            )  # fmt: skip
        elif record.dead_lettered > before.dead_lettered or record.dropped > before.dropped:
            _log.warning(
                "message_given_up", topic=label, subscription=name[2], id=record.position, reason=record.last_error
            )


def _of_generation(snapshot: Snapshot, name: Name, generation: int) -> Topic:
    """Raises: NotFound when the living topic is another one."""
    living = topics.lookup(snapshot, name[0], name[1])
    if living.generation != generation:
        raise NotFound(f"topic {name[0]}/{name[1]} was created anew", code="topic_not_found")
    return living
