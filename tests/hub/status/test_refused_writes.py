"""What was refused is tried again: slower and slower, a few at a time, all at once when one was written."""

from __future__ import annotations

from fairlead_hub.status.refused_writes import TRIES_MAX, RefusedWrites


def name(number: int, namespace: str = "shop") -> tuple[str, str, str]:
    return ("objectsyncs", namespace, f"r{number}")


def test_the_first_of_a_namespace_is_news() -> None:
    """A line in the log for each place and not for each record."""
    refusals = RefusedWrites()
    assert refusals.refused(name(1), "403", 0.0)
    assert not refusals.refused(name(2), "403", 0.0)
    assert not refusals.refused(name(1), "403", 5.0)
    assert refusals.refused(name(1, "other"), "403", 0.0)
    refusals.forget(name(1))
    refusals.forget(name(2))
    assert refusals.refused(name(3), "403", 0.0)


def test_it_waits_longer_each_time_up_to_a_limit() -> None:
    """Half a minute at most."""
    refusals, now, waits = RefusedWrites(), 0.0, []
    for _ in range(50):
        refusals.refused(name(1), "403", now)
        started = now
        while not refusals.may_try(name(1), now):
            now += 1.0
            refusals.turn()
        waits.append(now - started)
    assert waits[:6] == [1, 2, 4, 8, 16, 30] and max(waits) == 30


def test_a_few_at_a_time_until_one_is_written() -> None:
    """Then whatever stood in the way of the others may be gone, too."""
    refusals = RefusedWrites()
    for number in range(100):
        refusals.refused(name(number), "403", 0.0)
    refusals.turn()
    assert sum(refusals.may_try(name(number), 1.0) for number in range(100)) == TRIES_MAX
    assert refusals.may_try(name(1000), 1.0), "never refused"
    for number in range(5):
        refusals.refused(name(number), "403", 1.0)
    refusals.written(name(7))
    refusals.turn()
    assert all(refusals.may_try(name(number), 1.0) for number in range(100))
    assert len(refusals) == 99


def test_what_is_reported_of_it() -> None:
    """Since when, and the newest reason; a reason has a limit."""
    refusals = RefusedWrites()
    assert refusals.oldest() is None
    refusals.refused(name(1), "x" * 10_000, 3.0)
    refusals.refused(name(2), "403", 4.0)
    oldest = refusals.oldest()
    assert oldest is not None and oldest.since == 3.0 and len(oldest.reason) == 500
