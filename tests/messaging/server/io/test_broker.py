"""The running service: its identity, its chores, its end."""

from __future__ import annotations

import asyncio
import threading

import pytest
from prometheus_client import CollectorRegistry
from tests.support.topics.messaging import Clock, serving, until

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.api.responses import Reader
from fairlead_messaging.server.inspection import TopicStats
from fairlead_messaging.server.io.broker import Broker, Notifier
from fairlead_messaging.server.io.metrics import CASSANDRA_PREFIX, CassandraMetrics, MessagingMetrics
from fairlead_messaging.server.io.snapshot_readers import THREADS, SnapshotReaders
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.retention import ClockJumpGuard
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions.commands import Start


async def test_a_data_directory_keeps_its_id() -> None:
    """Minted once; a reader can distinguish one service's positions from another's."""
    kv = MemoryKV()
    broker = Broker(kv, MessagingSettings(security="insecure"), Clock(), "first")
    assert broker.service_id == "first"
    for task in broker._tasks:
        task.cancel()
    again = Broker(kv, MessagingSettings(security="insecure"), Clock(), "second")
    assert again.service_id == "first"
    await again.close()


async def test_stopping_wakes_long_polls_and_refuses_changes() -> None:
    async with serving() as topics:
        await topics.create("t")
        waiting = asyncio.create_task(topics.poll("t", wait_ms=60_000))
        await until(lambda: topics.broker.notifier.waiting == 1)
        topics.broker.stop_waiting()
        assert (await waiting).ids == []
        assert (await topics.ask("GET", "/readyz")).status == 503
        broker = topics.broker
    with pytest.raises(Unavailable):
        await broker.change(Start(timeout_seconds=1))


# --- Waking waiting readers.


async def test_only_the_topics_own_listeners_are_woken() -> None:
    notifier = Notifier()
    one, other = notifier.subscribe(("n", "t")), notifier.subscribe(("n", "u"))
    notifier.notify({("n", "t"), ("n", "unheard")})
    assert (one.done(), other.done()) == (True, False)
    notifier.notify_all()
    await asyncio.gather(one, other)
    await asyncio.sleep(0)
    assert notifier.waiting == 0


async def test_a_cancelled_listener_is_forgotten() -> None:
    notifier = Notifier()
    waiting = notifier.subscribe(("n", "t"))
    waiting.cancel()
    notifier.notify({("n", "t")})
    await asyncio.sleep(0)  # callbacks of futures run in the loop's next round
    assert notifier.waiting == 0


# --- Cleaning goes on by itself, and waits while the clock cannot be trusted.


async def test_cleanup_runs_by_itself() -> None:
    async with serving(cleanup={"interval_seconds": 0.05}) as topics:
        await topics.create("t", ttl=1)
        await topics.publish("t", "a")
        topics.clock.forward(5000)
        await until(lambda: topics.broker.cleaner.removed_rows > 0)


async def test_nothing_is_removed_after_the_clock_jumped_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expiry is judged by the clock as it is; removal is for good, so it waits for the clock to be put right."""
    looks: list[bool] = []
    look = ClockJumpGuard.is_safe

    def counted(self: ClockJumpGuard, wall_ms: int, steady_ms: int) -> bool:
        looks.append(look(self, wall_ms, steady_ms))
        return looks[-1]

    monkeypatch.setattr(ClockJumpGuard, "is_safe", counted)
    async with serving(cleanup={"interval_seconds": 0.05}) as topics:
        await topics.create("t", ttl=100)
        await topics.publish("t", "a")
        topics.clock.forward(200_000)
        assert (await topics.poll("t")).ids == []
        await until(lambda: looks[-2:] == [False, False])
        assert topics.broker.cleaner.removed_rows == 0
        topics.clock.forward(-190_000)
        cleanups = topics.broker.cleaner.cleanups
        await until(lambda: topics.broker.cleaner.cleanups > cleanups + 1)
        assert len((await topics.poll("t")).ids) == 1


async def test_a_jump_during_a_pass_changes_nothing_for_it() -> None:
    """The pass removes as of the time that was found to be safe before it began."""
    async with serving() as topics:
        await topics.create("t", ttl=100)
        await topics.publish("t", "a")
        safe_ms = topics.clock.now_ms
        topics.clock.forward(200_000)
        await topics.broker.cleaner.clean(safe_ms)
        assert topics.broker.cleaner.removed_rows == 0
        await topics.broker.cleaner.clean()
        assert topics.broker.cleaner.removed_rows > 0


# --- Reads of one kind do not wait for those of another, and a store that fails is said to be away.


async def test_a_probe_does_not_wait_behind_polls() -> None:
    readers, go = SnapshotReaders(MemoryKV()), threading.Event()

    def slow(snapshot: Snapshot) -> None:
        go.wait(60)

    polls = [asyncio.create_task(readers.read(slow)) for _ in range(2 * THREADS)]
    async with asyncio.timeout(100):
        assert await readers.read(lambda snapshot: "probe", probe=True) == "probe"
        assert await readers.read(lambda snapshot: "bulk", sequential=True) == "bulk"
    go.set()
    await asyncio.gather(*polls)
    await readers.close()


async def test_a_store_that_cannot_be_read_is_asked_again_later() -> None:
    kv = MemoryKV()
    kv.close()
    readers = SnapshotReaders(kv)
    with pytest.raises(Unavailable) as refused:
        await readers.read(lambda snapshot: None)
    assert refused.value.code == "storage_failed"
    await readers.close()


# --- Metrics in text.


def test_publish_counts_messages_and_bytes() -> None:
    metrics = MessagingMetrics()
    metrics.note_published("n/t", [LoggedMessage(b"abc"), LoggedMessage(b"de")], 0)
    metrics.note_published("n/t", [LoggedMessage(b"abc")], 1)
    text = metrics.text().decode()
    assert 'fairlead_messaging_published_messages_total{topic="n/t"} 2.0' in text
    assert 'fairlead_messaging_published_bytes_total{topic="n/t"} 5.0' in text
    assert 'fairlead_messaging_known_messages_total{topic="n/t"} 1.0' in text


def test_topic_stats_replace_each_other() -> None:
    metrics = MessagingMetrics()
    reader = Reader(name="r", position="", updated_ms=0, lag_messages=3, lag_seconds=1.5)
    metrics.show_topic_stats([TopicStats(topic="n/t", messages=5, size=9, blocked_seconds=2.0, readers=[reader])])
    assert 'reader_lag_messages{reader="r",topic="n/t"} 3.0' in metrics.text().decode()
    metrics.show_topic_stats([])
    assert "n/t" not in metrics.text().decode()


def test_what_only_rises_is_a_counter() -> None:
    """`rate()` over a gauge takes a restart for a fall; the service's own totals are taken over as they are."""
    metrics = MessagingMetrics()
    totals = ("batches", "storage_failures", "removed_rows", "cleanups", "cache_hits", "cache_misses")
    for total in (metrics.batches, metrics.failures, metrics.removed, metrics.cleanups, metrics.cache_hits):
        total.set(3)
    metrics.cache_misses.set(3)
    text = metrics.text().decode()
    for name in totals:
        assert f"# TYPE fairlead_messaging_{name}_total counter" in text
        assert f"fairlead_messaging_{name}_total 3.0" in text
    gauges = [each for each in metrics.registry.collect() if each.type == "gauge"]
    assert gauges and not [each.name for each in gauges if "since" in each.documentation]


def test_the_certificates_end_is_shown_where_there_is_one() -> None:
    """Asked each time: its file may have been replaced."""
    metrics = MessagingMetrics()
    assert "certificate_ends" not in metrics.text().decode()
    metrics.show_certificate(lambda: 1.9e9)
    assert "fairlead_messaging_certificate_ends_timestamp_seconds 1.9e+09" in metrics.text().decode()


def test_everything_noted_is_a_metric() -> None:
    registry = CollectorRegistry()
    metrics = CassandraMetrics(registry)
    metrics.note_request("commit", 0.2)
    metrics.note_unknown()
    metrics.note_repeated()
    metrics.note_taken_over()
    metrics.show_unapplied(3)
    assert registry.get_sample_value(CASSANDRA_PREFIX + "request_seconds_count", {"operation": "commit"}) == 1
    for name, value in (("unknown_outcomes", 1), ("repeated_writes", 1), ("taken_over", 1)):
        assert registry.get_sample_value(f"{CASSANDRA_PREFIX}{name}_total") == value
    assert registry.get_sample_value(CASSANDRA_PREFIX + "unapplied_batches") == 3
