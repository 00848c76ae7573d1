"""Nothing is deleted by a clock that has just jumped ahead."""

from __future__ import annotations

from fairlead_messaging.server.retention import JUMP_MS, TRUST_AGAIN_MS, ClockJumpGuard


def test_an_ordinary_clock_is_trusted() -> None:
    """Small corrections and steps back too."""
    watch = ClockJumpGuard(1000, 0)
    assert watch.look(61_000, 60_000)
    assert watch.look(121_500, 120_000)
    assert watch.look(50_000, 180_000)


def test_a_jump_ahead_is_not_until_it_lasted() -> None:
    """Ten days in a minute: wait an hour, then believe it."""
    watch = ClockJumpGuard(0, 0)
    days = 10 * 86_400_000
    assert not watch.look(days, 60_000)
    assert not watch.look(days + TRUST_AGAIN_MS - 60_000, TRUST_AGAIN_MS)
    assert watch.look(days + TRUST_AGAIN_MS, 60_000 + TRUST_AGAIN_MS)


def test_a_clock_that_was_put_right_is_trusted_at_once() -> None:
    """The jump is undone."""
    watch = ClockJumpGuard(0, 0)
    assert not watch.look(5 * JUMP_MS, 1000)
    assert watch.look(2000, 2000)
    assert watch.look(3000, 3000)
