"""Runs all push subscriptions, each in its own task, so that a dead endpoint delays no other.

``push`` decides what to do in which order, and ``push_performer`` does it.  A check of the table every few seconds
starts missing tasks, stops those of deleted subscriptions and restarts those of changed ones, so that an interrupted
request never leaves a subscription without its task.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from fairlead_messaging.api.errors import MessagingError
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.io.push_performer import Name, PushPerformer, PushSender, Storing, unlimited
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.subscriptions import push, subscription
from fairlead_messaging.server.subscriptions.push import Push, Step
from fairlead_wire.io import logs

CHECK_SECONDS = 5.0
"""How often to check that each subscription has its task."""
DEFECT_PAUSE_SECONDS = 5.0

_log = logs.get("messaging.pusher")


@dataclass(slots=True, kw_only=True)
class _RunningPush:
    """The task of one subscription, with its script and performer."""

    push: Push
    performer: PushPerformer
    task: asyncio.Task[None] | None = None


class Pusher:
    """Starts and stops the tasks as subscriptions come and go."""

    def __init__(self, broker: Broker, metrics: MessagingMetrics, storing: Storing = unlimited) -> None:
        self._broker = broker
        self._metrics = metrics
        self._storing = storing
        self._random = Random()
        self._running: dict[Name, _RunningPush] = {}
        self._sender = PushSender()
        self._checking: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        return len(self._running)

    def trouble(self, name: Name) -> str:
        """What holds a subscription up besides its endpoint: the store, or a defect; "" if nothing does."""
        running = self._running.get(name)
        return running.performer.trouble if running is not None else ""

    async def start(self) -> None:
        """Resume all subscriptions, and keep checking that each has a task."""
        self._checking = asyncio.create_task(self._check_forever())

    def renew(self, name: Name) -> None:
        """Start the task of a subscription, or restart it after a change; that of a deleted one ends by itself."""
        self._end(name)
        performer = PushPerformer(name, self._broker, self._sender, self._metrics, self._storing)
        running = _RunningPush(push=Push(self._broker.now_ms, self._random), performer=performer)
        self._running[name] = running
        running.task = asyncio.create_task(self._push(name, running))
        running.task.add_done_callback(lambda _: self._forget(name, running))

    async def close(self) -> None:
        tasks = [each.task for each in self._running.values() if each.task is not None]
        if self._checking is not None:
            tasks.append(self._checking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sender.close()

    def _end(self, name: Name) -> None:
        before = self._running.pop(name, None)
        if before is not None and before.task is not None:
            before.task.cancel()

    def _forget(self, name: Name, running: _RunningPush) -> None:
        if self._running.get(name) is running:
            del self._running[name]

    async def _check_forever(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Make the tasks match the table and the delivery policies of the topics."""
        try:
            await self._check()
        except MessagingError as error:
            _log.warning("subscriptions_not_read", reason=error.message, remedy="none: it will be tried again")
        except Exception:  # noqa: BLE001 - one unreadable record must not leave all others without tasks
            _log.exception("subscriptions_not_read")

    async def _check(self) -> None:
        before = dict(self._running)

        def every(snapshot: Snapshot) -> dict[Name, str]:
            return {
                (topic.namespace, topic.name, name): push.version_of(
                    record, subscription.effective_policy(topic, record)
                )
                for topic, name, record in subscription.every(snapshot)
            }

        there = await self._broker.read(every)
        for name, running in before.items():
            if name not in there and self._running.get(name) is running:
                self._end(name)
        for name, version in there.items():
            running_now = self._running.get(name)
            if running_now is None or (
                before.get(name) is running_now
                and running_now.performer.has_loaded
                and running_now.push.version != version
            ):
                self.renew(name)

    async def _push(self, name: Name, running: _RunningPush) -> None:
        while not self._broker.closing:
            try:
                await self._run(running)
                return
            except Exception:  # noqa: BLE001 - a defect must not end a subscription
                _log.exception("push_failed", topic="/".join(name[:2]), subscription=name[2])
                running.performer.trouble = "a defect of the service; its log says more"
                self._metrics.push_failures.inc()
                await asyncio.sleep(DEFECT_PAUSE_SECONDS)
                running.push = Push(self._broker.now_ms, self._random)

    async def _run(self, running: _RunningPush) -> None:
        script = running.push.run()
        step: Step = next(script)
        while not self._broker.closing:
            try:
                result = await running.performer.perform(step)
            except MessagingError as error:
                advance: Any = partial(script.throw, error)
            else:
                advance = partial(script.send, result)
            try:
                step = advance()
            except StopIteration:
                return
