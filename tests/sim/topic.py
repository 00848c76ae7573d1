"""Messaging in a simulated world: the real writer over the in-memory store, batch by batch.

A batch is durable or it is not; a crash may happen before it, after it, or between it and the answers.  Its clock may
step back.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from fairlead_messaging.api.message_id import FIRST
from fairlead_messaging.server.commands import CreateTopic, Publish
from fairlead_messaging.server.log import reader, topics
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.producers import make
from fairlead_messaging.server.service import Service
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch

NAMESPACE = "default"
NAMES = ("telemetry", "alarms", "meters", "logs", "rest")
WEEK = 7 * 86_400


class Topics:
    """One service; ``publish`` answers True once its batch is durable, False if the service ended before."""

    def __init__(self, random: Random, schedule: Callable[[float, Callable[[], None]], None], now: Callable[[], float]):
        self._random = random
        self._schedule = schedule
        self._now = now
        self._kv = MemoryKV()
        self._service = Service(self._kv)
        self._waiting: list[tuple[Publish, Callable[[bool], None]]] = []
        self._clock_step = 0.0
        self._writing = False
        self._life = 0
        self._full_until: dict[str, float] = {}
        self.calm = False
        batch = Batch()
        for name in NAMES:
            create = CreateTopic(namespace=NAMESPACE, name=name, ttl_seconds=WEEK, properties={})
            self._service.propose(create, batch, self._now_ms())
        self._service.close_batch(batch)
        self._kv.apply(batch)
        self._service.applied()

    def _now_ms(self) -> int:
        return 1_700_000_000_000 + int((self._now() + self._clock_step) * 1000)

    def step_clock(self) -> None:
        """The machine's clock is set, perhaps back."""
        self._clock_step += self._random.uniform(-30, 30)

    def fill(self) -> None:
        """A topic is over the quota of its namespace for a while."""
        self._full_until[f"{NAMESPACE}/{self._random.choice(NAMES)}"] = self._now() + self._random.uniform(1, 40)

    def refuses(self, topic: str) -> bool:
        """Whether it accepts nothing now; sometimes for a single batch."""
        return self._full_until.get(topic, 0.0) > self._now() or (not self.calm and self._random.random() < 0.03)

    def kill(self) -> None:
        """The process ends: its store stays, and waiting requests are not answered."""
        self._life += 1
        self._service = Service(self._kv)
        waiting, self._waiting = self._waiting, []
        self._writing = False
        for _, answer in waiting:
            answer(False)

    def publish(
        self,
        topic: str,
        producer: str,
        epoch: int,
        sequences: list[int],
        payloads: list[bytes],
        answer: Callable[[bool], None],
    ) -> None:
        known = make(
            producer_id=producer, epoch=epoch, sequence=None, sequences=sequences, fence=False, messages=len(payloads)
        )
        messages = [LoggedMessage(payload) for payload in payloads]
        namespace, _, name = topic.partition("/")
        publish = Publish(namespace=namespace, name=name, messages=messages, producer=known)
        self._waiting.append((publish, answer))
        self._write()

    def _write(self) -> None:
        """Group commit: everything that waits becomes one batch."""
        if self._writing or not self._waiting:
            return
        self._writing = True
        life = self._life
        group, self._waiting = self._waiting, []
        batch = Batch()
        for publish, _ in group:
            self._service.propose(publish, batch, self._now_ms())
        self._service.close_batch(batch)
        dies_before = self._random.random() < 0.02

        def durable() -> None:
            if self._life != life or dies_before:
                self._answer(group, False)
                if self._life == life:
                    self._service.forget()
                    self._writing = False
                    self._write()
                return
            self._kv.apply(batch)
            self._service.applied()
            self._writing = False
            self._answer(group, True)
            self._write()

        self._schedule(self._now() + self._random.uniform(0.001, 0.1), durable)

    def _answer(self, group: list[tuple[Publish, Callable[[bool], None]]], stored: bool) -> None:
        for _, answer in group:
            answer(stored)

    def rows(self, name: str) -> list[tuple[bytes, dict[str, Any]]]:
        """Everything readable in one topic: (message id, envelope), in delivery order."""
        topic = topics.record(self._kv, NAMESPACE, name)
        assert topic is not None
        with self._kv.snapshot() as snapshot:
            page = reader.read(snapshot, topic, after=FIRST, limit=1_000_000, bytes_max=1 << 40, now_ms=self._now_ms())
        return [(id, msgspec.json.decode(payload)) for id, payload in zip(page.ids, page.payloads, strict=True)]
