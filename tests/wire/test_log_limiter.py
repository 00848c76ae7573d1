"""What repeats is logged at first and then once in a while, and how often it happened is never lost."""

from __future__ import annotations

from fairlead_wire.log_limiter import LogLimiter


def test_first_then_once_in_a_while_with_the_count() -> None:
    limiter = LogLimiter(60.0)
    assert [limiter.due("a", now) for now in (0, 1, 30, 59, 60, 61)] == [1, None, None, None, 4, None]


def test_each_key_for_itself() -> None:
    limiter = LogLimiter(60.0)
    assert [limiter.due(key, 0.0) for key in ("a", "b", "a")] == [1, 1, None]


def test_memory_is_bounded() -> None:
    """Keys come from outside: the one logged longest ago is forgotten first."""
    limiter = LogLimiter(60.0, keys_max=2)
    assert [limiter.due(key, 0.0) for key in ("a", "b", "c", "b", "a")] == [1, 1, 1, None, 1]
    assert len(limiter._logged) == 2
