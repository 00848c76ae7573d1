"""Pushes the messages of subscriptions: one task for each, so that a dead endpoint delays nobody else."""

from __future__ import annotations

import asyncio
import socket
from random import Random

import aiohttp
from aiohttp.abc import ResolveResult
from aiohttp.resolver import ThreadedResolver

from fairlead_messaging import reader, subscription, topics, visibility
from fairlead_messaging.commands import Message, NoteSubscription, Publish
from fairlead_messaging.errors import MessagingError, NotFound, Unavailable
from fairlead_messaging.io.broker import Broker
from fairlead_messaging.kv import Snapshot
from fairlead_messaging.message_id import FIRST
from fairlead_messaging.producers import Producer
from fairlead_messaging.reader import Page
from fairlead_messaging.subscription import Subscription
from fairlead_messaging.transaction import View
from fairlead_wire import delivery
from fairlead_wire.io import logs

REQUEST_TIMEOUT_SECONDS = 10.0
PAGE_MESSAGES = 100
PAGE_BYTES = 4 * 1024 * 1024
IDLE_WAIT_MS = 30_000
ERROR_CHARS_MAX = 200

Name = tuple[str, str, str]
"""Namespace, topic, subscription."""

_log = logs.get("messaging.pusher")


class _Resolver(ThreadedResolver):
    """Leaves out the addresses nobody may be pushed to: a name can mean another address each time it is asked for."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await super().resolve(host, port, family)
        allowed = [each for each in found if subscription.is_endpoint(each["host"])]
        if not allowed:
            raise OSError(f"{host} is link-local: not pushed to")
        return allowed


class Pusher:
    """Starts and stops the tasks as subscriptions come and go."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._random = Random()
        self._tasks: dict[Name, asyncio.Task[None]] = {}
        self._session: aiohttp.ClientSession | None = None

    @property
    def running(self) -> int:
        return len(self._tasks)

    async def start(self) -> None:
        """Go on with every subscription there is."""

        def every(snapshot: Snapshot) -> list[Name]:
            living = [topic for topic in topics.every(snapshot) if topic.exists]
            return [
                (topic.namespace, topic.name, name)
                for topic in living
                for name in subscription.of_topic(snapshot, topic)
            ]

        for name in await self._broker.read(every):
            self.renew(name)

    def renew(self, name: Name) -> None:
        """Begin with a subscription, or begin again after it was changed; one that is gone just ends."""
        before = self._tasks.pop(name, None)
        if before is not None:
            before.cancel()
        task = asyncio.create_task(self._push(name))
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._tasks.pop(name, None) if self._tasks.get(name) is done else None)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _push(self, name: Name) -> None:
        after = FIRST
        while not self._broker.closing:
            try:
                record = await self._record(name)
                # Rows that are never shown move the page on, but are no reason to write the record.
                after = max(after, bytes.fromhex(record.position) if record.position else FIRST)
                page = await self._page(name, after)
                after = page.next_position
                for message_id, payload in zip(page.ids, page.payloads, strict=True):
                    record = await self._deliver(name, record, message_id, payload)
            except NotFound:
                return
            except Unavailable as error:
                _log.warning("push_paused", topic="/".join(name[:2]), subscription=name[2], reason=error.message)
                await asyncio.sleep(error.retry_after_seconds)
            except MessagingError as error:
                _log.error("push_stopped", topic="/".join(name[:2]), subscription=name[2], reason=error.message)
                return

    async def _record(self, name: Name) -> Subscription:
        """Raises: NotFound when the subscription or its topic is gone."""

        def look(snapshot: Snapshot) -> Subscription:
            found = subscription.of_topic(snapshot, topics.lookup(snapshot, name[0], name[1])).get(name[2])
            if found is None:
                raise NotFound(f"subscription {name[2]} does not exist", code="subscription_not_found")
            return found

        return await self._broker.read(look)

    async def _page(self, name: Name, after: bytes) -> Page:
        def look(snapshot: Snapshot) -> Page:
            return reader.read(
                snapshot,
                topics.lookup(snapshot, name[0], name[1]),
                after=after,
                limit=PAGE_MESSAGES,
                bytes_max=PAGE_BYTES,
                now_ms=self._broker.now_ms(),
                decide=visibility.decide(View(snapshot), None, read_committed=True),
            )

        return await self._broker.read_until(name[:2], look, _is_enough, IDLE_WAIT_MS)

    async def _deliver(self, name: Name, record: Subscription, message_id: bytes, payload: bytes) -> Subscription:
        """Returns the record after the message was delivered or given up; it is durable by then."""
        position = message_id.hex()
        uniform = delivery.generator_of(record.delivery, self._random)
        while True:
            await asyncio.sleep(max(0, record.next_attempt_ms - self._broker.now_ms()) / 1000)
            error, final, retry_after = await self._send(name, record.url, position, payload)
            if not error:
                return await self._note(name, subscription.moved(record, position, delivered=1))
            again = None
            if not final:
                again = subscription.failed(
                    record, error, self._broker.now_ms(), uniform=uniform, retry_after_seconds=retry_after
                )
            if again is None:
                return await self._give_up(name, record, message_id, payload, error)
            record = await self._note(name, again)

    async def _send(self, name: Name, url: str, position: str, payload: bytes) -> tuple[str, bool, float | None]:
        """("" or what went wrong, whether repeating is pointless, how long the endpoint asked to wait)."""
        if self._session is None:
            connector = aiohttp.TCPConnector(resolver=_Resolver())
            timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        headers = {
            "Content-Type": "application/octet-stream",
            "Fairlead-Message-Id": position,
            "Fairlead-Topic": "/".join(name[:2]),
            "Fairlead-Subscription": name[2],
        }
        try:
            async with self._session.post(url, data=payload, headers=headers, allow_redirects=False) as response:
                status, asked = response.status, response.headers.get("Retry-After", "")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return (str(error) or type(error).__name__)[:ERROR_CHARS_MAX], False, None
        if subscription.is_delivered(status):
            return "", False, None
        return f"status {status}", subscription.is_final(status), subscription.asked_seconds(asked)

    async def _give_up(
        self, name: Name, record: Subscription, message_id: bytes, payload: bytes, error: str
    ) -> Subscription:
        _log.warning(
            "message_given_up", topic="/".join(name[:2]), subscription=name[2], id=message_id.hex(), reason=error
        )
        position = message_id.hex()
        if record.dead_letter_topic is None:
            return await self._note(name, subscription.moved(record, position, dropped=1, reason=error))
        namespace, topic = subscription.dead_letter_names(record.dead_letter_topic)
        # A producer of its own for each message: a crash between the two writes stores the dead letter once.
        producer = Producer(id=subscription.letter_producer(name, position), epoch=0, sequences=(0,))
        letter = Publish(namespace=namespace, name=topic, messages=[Message(payload)], producer=producer)
        try:
            await self._broker.change(letter, len(payload))
        except NotFound:
            raise Unavailable(
                f"dead letter topic {record.dead_letter_topic} does not exist", retry_after_seconds=5.0
            ) from None
        return await self._note(name, subscription.moved(record, position, dead=1, reason=error))

    async def _note(self, name: Name, record: Subscription) -> Subscription:
        await self._broker.change(
            NoteSubscription(namespace=name[0], name=name[1], subscription=name[2], record=record)
        )
        return record


def _is_enough(page: Page) -> bool:
    """Something to send, or so much passed over that the page ended early."""
    return bool(page.ids) or not page.complete
