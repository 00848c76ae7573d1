"""Enforces quotas: a publish is admitted, or answered 429 with the number of seconds to wait.

handler ─storing(namespace, messages)→ admitted, then stored or not
run     ─every MEASURE_SECONDS→ how much each namespace holds, for the quotas and for metrics
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from fairlead_messaging.api.errors import OverQuota, StorageError, Unavailable
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.log.rows import Messages, columns
from fairlead_messaging.server.quotas import ByteRate, Quotas, StoredBytes, counted_size, measure
from fairlead_wire.io import logs

MEASURE_SECONDS: Final = 10.0
LABELS_MAX: Final = 1000
"""How many namespaces get their own metrics."""
RETRY_SECONDS: Final = 30.0
"""Retry-After while stored bytes have to expire first, at a time that depends on their times to live."""

_log = logs.get("messaging.quotas")


class QuotaKeeper:
    """``start`` it before the first publish, because stored messages count."""

    def __init__(
        self, broker: Broker, quotas: Quotas, metrics: MessagingMetrics, *, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._broker = broker
        self._quotas = quotas
        self._metrics = metrics
        self._steady = steady
        self._rate = ByteRate()
        self._stored = StoredBytes()
        self._labelled: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._quotas:
            await self._measure()
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @contextlib.contextmanager
    def storing(self, namespace: str, messages: Messages) -> Iterator[None]:
        """A context for the write of messages.  Raises: OverQuota, and then nothing was begun."""
        quota = self._quotas.of(namespace)
        if quota.bytes_per_second is None and quota.stored_bytes is None:
            yield
            return
        size = counted_size(len(messages), sum(map(len, columns(messages)[0])))
        now = self._steady()
        if quota.stored_bytes is not None and self._stored.of(namespace) + size > quota.stored_bytes:
            self._refused(namespace, "stored_bytes")
            raise OverQuota(
                f"namespace {namespace} may hold {quota.stored_bytes} bytes, and these {size} exceed what is left: "
                "delete topics or lower times to live, or raise its quota",
                code="quota_stored_bytes",
                retry_after_seconds=RETRY_SECONDS,
            )
        if quota.bytes_per_second is not None:
            if wait := self._rate.wait(namespace, now):
                self._refused(namespace, "bytes_per_second")
                raise OverQuota(
                    f"namespace {namespace} may take {quota.bytes_per_second} bytes a second: try again in "
                    f"{math.ceil(wait)} s",
                    code="quota_bytes_per_second",
                    retry_after_seconds=wait,
                )
            self._rate.take(namespace, size, quota.bytes_per_second, now)
        self._stored.coming(namespace, size)
        stored = False
        try:
            yield
            stored = True
        finally:
            self._stored.ended(namespace, size, stored=stored)

    def refused_topic(self, namespace: str) -> None:
        """Count a topic that the writer refused."""
        self._refused(namespace, "topics")

    def _refused(self, namespace: str, quota: str) -> None:
        """Count a refusal for its namespace, unless there are too many: clients invent their names."""
        if len(self._labelled) < LABELS_MAX:
            self._labelled.add(namespace)
        shown = namespace if namespace in self._labelled else "(others)"
        self._metrics.quota_refused.labels(shown, quota).inc()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_SECONDS)
            try:
                await self._measure()
            except (Unavailable, StorageError) as error:
                _log.warning("quota_not_measured", reason=str(error))

    async def _measure(self) -> None:
        self._stored.begin()
        counts = partial(_counts, self._quotas)
        now_ms = self._broker.now_ms()
        found = await self._broker.read(lambda snapshot: measure(snapshot, now_ms, counts), probe=True)
        self._stored.measured(found)
        self._metrics.show_quotas({namespace: (size, self._limit(namespace)) for namespace, size in found.items()})

    def _limit(self, namespace: str) -> int:
        limit = self._quotas.of(namespace).stored_bytes
        assert limit is not None  # only namespaces with this quota are measured
        return limit


def _counts(quotas: Quotas, namespace: str) -> bool:
    return quotas.of(namespace).stored_bytes is not None
