"""Performs the script of a subscription: reads its record and its messages, sends them, and saves the outcome."""

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
"""How often the clock is read while waiting for a time, because the clock may be set."""

Name = tuple[str, str, str]
"""Namespace, topic, subscription."""

Storing = Callable[[str, Messages], AbstractContextManager[None]]
"""A context for a write of messages into a namespace.  Raises: OverQuota."""

_log = logs.get("messaging.pusher")


def unlimited(_namespace: str, _messages: Messages) -> AbstractContextManager[None]:
    """For services without quotas."""
    return contextlib.nullcontext()


class PushSender:
    """Posts messages to endpoints; all subscriptions share its connection pool."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._resolver = EndpointResolver()

    async def send(self, name: Name, url: str, item: PushItem) -> PushResult:
        if self._session is None:
            # As many connections as subscriptions: with fewer, dead endpoints could occupy all of them.
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
    """Performs the steps of one subscription; ``trouble`` says what holds it up besides its endpoint, if anything."""

    def __init__(
        self, name: Name, broker: Broker, sender: PushSender, metrics: MessagingMetrics, storing: Storing = unlimited
    ) -> None:
        self._name = name
        self._broker = broker
        self._sender = sender
        self._metrics = metrics
        self._storing = storing
        self._record: SubscriptionRecord | None = None
        """The record on disk, as far as known."""
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

        def query(snapshot: Snapshot) -> Loaded:
            living = topics.lookup(snapshot, namespace, topic)
            raw = snapshot.get(keys.subscription(living, name))
            if raw is None:
                raise NotFound(f"subscription {name} does not exist", code="subscription_not_found")
            record = subscription.decode(raw)
            return Loaded(record, living.generation, subscription.effective_policy(living, record))

        return await self._broker.read(query)

    async def _read(self, step: ReadPage) -> PushPage:
        def query(snapshot: Snapshot) -> PushPage:
            return push_page.read(
                snapshot,
                self._of_generation(snapshot, step.generation),
                after=step.after,
                limit=PAGE_MESSAGES,
                bytes_max=PAGE_BYTES,
                now_ms=self._broker.now_ms(),
            )

        topic = self._name[:2]
        return await self._broker.read_until(topic, query, lambda page: page.is_enough(step.after), step.wait_ms)

    async def _store_dead_letter(self, item: PushItem, dead_letter_topic: str) -> None:
        namespace, topic = subscription.dead_letter_topic_names(dead_letter_topic)
        # With one producer for each message, a crash between the two writes does not store the dead letter twice.
        producer = NumberedProducer(
            id=subscription.dead_letter_producer_id(self._name, item.id.hex()), epoch=0, sequences=(0,)
        )
        letter = Publish(namespace=namespace, name=topic, messages=[LoggedMessage(item.payload)], producer=producer)
        # It counts towards the quota: subscriptions that pass dead letters in a circle would fill the disk.
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
                remedy="create the topic, or let it accept messages without a transaction",
            )  # fmt: skip
        elif record.dead_lettered > before.dead_lettered or record.dropped > before.dropped:
            _log.warning(
                "message_given_up", topic=label, subscription=name, id=record.position, reason=record.last_error
            )

    def _of_generation(self, snapshot: Snapshot, generation: int) -> TopicGeneration:
        """The topic, if it still has this generation.  Raises: NotFound."""
        living = topics.lookup(snapshot, *self._name[:2])
        if living.generation != generation:
            raise NotFound(f"topic {'/'.join(self._name[:2])} was deleted and created again", code="topic_not_found")
        return living


class EndpointResolver(AbstractResolver):
    """Filters out addresses to which nothing may be pushed, at every lookup, because their names may change.

    It has its own threads: a name server that does not answer blocks one for many seconds.
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
