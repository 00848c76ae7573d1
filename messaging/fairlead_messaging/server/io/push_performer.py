"""Performs the script of a subscription: reads its record and messages, sends them, and saves the outcome."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from fairlead_messaging.api.errors import NotFound
from fairlead_messaging.server.commands import Publish
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.log import keys, topics
from fairlead_messaging.server.log.rows import LoggedMessage, Messages
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.producers import NumberedProducer
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.subscriptions import push_page, subscription
from fairlead_messaging.server.subscriptions.changes import RecordDelivery
from fairlead_messaging.server.subscriptions.push import (
    REASON_CHARS_MAX,
    BackOff,
    Find,
    Load,
    Loaded,
    PushPause,
    PushResult,
    ReadPage,
    Save,
    Send,
    Step,
    StoreDeadLetter,
)
from fairlead_messaging.server.subscriptions.push_page import PushItem, PushPage
from fairlead_messaging.server.subscriptions.subscription import SUBSCRIPTIONS_MAX, SubscriptionRecord
from fairlead_wire import errors
from fairlead_wire.backoff import retry_after_seconds
from fairlead_wire.io import logs

# --- Resolving the names of endpoints.

THREADS = 32
NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


REQUEST_TIMEOUT_SECONDS = 10.0
PAGE_MESSAGES = 100
PAGE_BYTES = 4 * 1024 * 1024
PAUSE_SECONDS_MAX = 1.0
"""How often the clock is read while waiting for a time: it may step."""

Name = tuple[str, str, str]
"""Namespace, topic, subscription."""

Storing = Callable[[str, Messages], AbstractContextManager[None]]
"""Around a write of messages into a namespace.  Raises: OverQuota."""

_log = logs.get("messaging.pusher")


def unlimited(_namespace: str, _messages: Messages) -> AbstractContextManager[None]:
    """Where there are no quotas."""
    return contextlib.nullcontext()


class PushSender:
    """Posts messages to endpoints, over connections that all subscriptions share."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._resolver = EndpointResolver()

    async def send(self, name: Name, url: str, item: PushItem) -> PushResult:
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
                status, asked = response.status, response.headers.get("Retry-After")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return PushResult(errors.text_of(error)[:REASON_CHARS_MAX])
        if subscription.is_delivered_status(status):
            return PushResult()
        return PushResult(
            f"status {status}",
            subscription.is_final_status(status),
            retry_after_seconds(asked, subscription.RETRY_AFTER_SECONDS_MAX),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()


class PushPerformer:
    """The steps of one subscription; ``trouble`` is what holds it up other than its endpoint, "" when nothing does."""

    def __init__(
        self, name: Name, broker: Broker, sender: PushSender, metrics: MessagingMetrics, storing: Storing = unlimited
    ) -> None:
        self._name = name
        self._broker = broker
        self._sender = sender
        self._metrics = metrics
        self._storing = storing
        self._record: SubscriptionRecord | None = None
        """As it stands on disk, as far as is known here."""
        self.trouble = ""

    @property
    def has_loaded(self) -> bool:
        return self._record is not None

    async def perform(self, step: Step) -> Any:
        """The result of the step.  Raises: MessagingError."""
        match step:
            case Load():
                loaded = await self._load()
                self._record, self.trouble = loaded.record, ""
                return loaded
            case ReadPage():
                return await self._read(step)
            case Find(id=message_id, generation=generation):
                return await self._broker.read(
                    lambda snapshot: push_page.find(
                        snapshot, self._of_generation(snapshot, generation), message_id, self._broker.now_ms()
                    )
                )
            case Send(url=url, item=item):
                return await self._sender.send(self._name, url, item)
            case StoreDeadLetter(item=item, topic=topic):
                return await self._store_dead_letter(item, topic)
            case Save():
                return await self._save(step)
            case PushPause(until_ms=until_ms):
                while (left_ms := until_ms - self._broker.now_ms()) > 0 and not self._broker.closing:  # noqa: ASYNC110
                    await asyncio.sleep(min(left_ms / 1000, PAUSE_SECONDS_MAX))
                return None
            case BackOff(seconds=seconds, reason=reason):
                if reason != self.trouble:
                    _log.warning(
                        "push_paused", topic="/".join(self._name[:2]), subscription=self._name[2], reason=reason
                    )
                self.trouble = reason
                self._metrics.push_failures.inc()
                return await asyncio.sleep(seconds)

    async def _load(self) -> Loaded:
        namespace, topic, name = self._name

        def look(snapshot: Snapshot) -> Loaded:
            living = topics.lookup(snapshot, namespace, topic)
            raw = snapshot.get(keys.subscription(living, name))
            if raw is None:
                raise NotFound(f"subscription {name} does not exist", code="subscription_not_found")
            record = subscription.decode(raw)
            return Loaded(record, living.generation, subscription.effective_policy(living, record))

        return await self._broker.read(look)

    async def _read(self, step: ReadPage) -> PushPage:
        def look(snapshot: Snapshot) -> PushPage:
            return push_page.read(
                snapshot,
                self._of_generation(snapshot, step.generation),
                after=step.after,
                limit=PAGE_MESSAGES,
                bytes_max=PAGE_BYTES,
                now_ms=self._broker.now_ms(),
            )

        topic = self._name[:2]
        return await self._broker.read_until(topic, look, lambda page: page.is_enough(step.after), step.wait_ms)

    async def _store_dead_letter(self, item: PushItem, dead_letter_topic: str) -> None:
        namespace, topic = subscription.dead_letter_topic_names(dead_letter_topic)
        # A producer of its own for each message: a crash between the two writes stores the dead letter once.
        producer = NumberedProducer(
            id=subscription.dead_letter_producer_id(self._name, item.id.hex()), epoch=0, sequences=(0,)
        )
        letter = Publish(namespace=namespace, name=topic, messages=[LoggedMessage(item.payload)], producer=producer)
        # Counted like what clients publish: subscriptions that hand letters round would fill the disk for all.
        with self._storing(namespace, letter.messages):
            await self._broker.change(letter, len(item.payload))

    async def _save(self, step: Save) -> None:
        namespace, topic, name = self._name
        record = step.record
        await self._broker.change(
            RecordDelivery(
                namespace=namespace,
                name=topic,
                generation=step.generation,
                subscription=name,
                record=record,
                policy=step.policy,
            )
        )
        before, self._record = self._record, record
        assert before is not None
        label = f"{namespace}/{topic}"
        for outcome in ("delivered", "dead_lettered", "dropped", "expired"):
            count = getattr(record, outcome) - getattr(before, outcome)
            if count > 0:
                self._metrics.pushed.labels(label, name, outcome).inc(count)
        if len(record.undeliverable) > len(before.undeliverable):
            _log.warning(
                "dead_letter_waits", topic=label, subscription=name, id=record.undeliverable[-1].id,
                dead_letter_topic=record.dead_letter_topic, reason=record.dead_letter_error,
                remedy="create the topic, or let it take plain messages",
            )  # fmt: skip
        elif record.dead_lettered > before.dead_lettered or record.dropped > before.dropped:
            _log.warning(
                "message_given_up", topic=label, subscription=name, id=record.position, reason=record.last_error
            )

    def _of_generation(self, snapshot: Snapshot, generation: int) -> TopicGeneration:
        """Raises: NotFound when the living topic is another one."""
        living = topics.lookup(snapshot, *self._name[:2])
        if living.generation != generation:
            raise NotFound(f"topic {'/'.join(self._name[:2])} was created anew", code="topic_not_found")
        return living


class EndpointResolver(AbstractResolver):
    """Leaves out the addresses that may not be pushed to: a name may resolve to another address each time.

    It has threads of its own: a name server that does not answer holds one for many seconds, and others are needed
    for what has nothing to do with names.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "resolver")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        ask = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        allowed = [
            ResolveResult(hostname=host, host=str(at[0]), port=int(at[1]), family=kind, proto=protocol, flags=NUMERIC)
            for kind, _, protocol, _, at in found
            if subscription.is_endpoint_address(str(at[0]))
        ]
        if not allowed:
            raise OSError(f"{host} is link-local: not pushed to")
        return allowed

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
