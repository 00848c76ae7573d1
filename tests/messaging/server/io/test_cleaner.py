"""Cleaning goes on by itself, and waits while the clock cannot be trusted."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging import serving, until

from fairlead_messaging.server.retention import ClockJumpGuard


async def test_cleanup_runs_by_itself() -> None:
    """Every ``interval_seconds``."""
    async with serving(cleanup={"interval_seconds": 0.05}) as topics:
        await topics.create("t", ttl=1)
        await topics.publish("t", "a")
        topics.clock.forward(5000)
        await until(lambda: topics.broker.cleaner.removed_rows > 0)


async def test_nothing_is_removed_after_the_clock_jumped_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expiry is judged by the clock as it is; removal is for good, so it waits for the clock to be put right."""
    looks: list[bool] = []
    look = ClockJumpGuard.look

    def counted(self: ClockJumpGuard, wall_ms: int, steady_ms: int) -> bool:
        looks.append(look(self, wall_ms, steady_ms))
        return looks[-1]

    monkeypatch.setattr(ClockJumpGuard, "look", counted)
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
