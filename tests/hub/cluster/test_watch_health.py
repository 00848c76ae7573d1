"""What is not followed, since when, and whether that is too much."""

from __future__ import annotations

import pytest

from fairlead_hub.cluster import watch_health
from fairlead_hub.cluster.watch_health import UNREADY_SECONDS, WatchBackoff, WatchHealth


def test_since_the_first_time_with_the_newest_reason() -> None:
    """A watch that fails again has not been fresh in between."""
    freshness = WatchHealth()
    assert freshness.stale("a", "gone", 1.0)
    assert not freshness.stale("a", "busy", 5.0)
    assert freshness.stale("b", "gone", 3.0)
    assert [(one.collection, one.since, one.reason) for one in freshness.all()] == [
        ("a", 1.0, "busy"),
        ("b", 3.0, "gone"),
    ]
    assert freshness.oldest(11.0) == 10.0
    assert freshness.fresh("a") == 1.0 and freshness.fresh("a") is None
    assert freshness.oldest(11.0) == 8.0
    freshness.fresh("b")
    assert freshness.oldest(11.0) == 0.0


def test_only_what_the_hub_decides_by_makes_it_unready_and_only_after_a_while() -> None:
    """One kind that cannot be watched concerns its own objects alone."""
    freshness = WatchHealth({"nodes"})
    freshness.stale("widgets", "gone", 0.0)
    assert not freshness.is_blind(1e6)
    freshness.stale("nodes", "gone", 100.0)
    assert not freshness.is_blind(100.0 + UNREADY_SECONDS - 1)
    assert freshness.is_blind(100.0 + UNREADY_SECONDS)
    freshness.fresh("nodes")
    assert not freshness.is_blind(1e6)


def test_a_watch_that_did_its_work_is_opened_again_at_once() -> None:
    """However often it ends: it moved on, or it lived."""
    pace = WatchBackoff()
    for now in range(100):
        pace.opened(now)
        assert pace.ended(now, progressed=True) == 0.0
        pace.opened(now)
        assert pace.ended(now + watch_health.HEALTHY_SECONDS, progressed=False) == 0.0


def test_a_watch_that_ends_at_once_again_and_again_waits_but_not_for_long() -> None:
    """No loop without a pause, and never more than half a second: an update must not wait longer."""
    pace = WatchBackoff()
    waits = []
    for _ in range(40):
        pace.opened(0.0)
        waits.append(pace.ended(0.0, progressed=False))
    assert 0.0 < waits[0] <= 0.1 and waits == sorted(waits)
    assert waits[-1] == watch_health.REOPEN_SECONDS_MAX < 1.0


@pytest.mark.parametrize("retry_after", [None, 0.0, 600.0, float("inf")])
def test_an_absence_is_asked_about_every_few_seconds(retry_after: float | None) -> None:
    """Whatever the server asks for."""
    pace = WatchBackoff()
    waits = [pace.failed(float(n), retry_after=retry_after, uniform=0.5) for n in range(40)]
    assert max(waits) <= watch_health.RETRY_AFTER_SECONDS_MAX
    assert pace.was_away
    pace.opened(100.0)
    assert not pace.was_away and pace.failed(101.0, retry_after=None, uniform=0.0) < 1.0


def test_not_all_march_in_step() -> None:
    """Ten watches of one hub come back spread over the pause."""
    waits = {WatchBackoff().failed(0.0, retry_after=None, uniform=n / 10) for n in range(10)}
    assert len(waits) == 10


def test_a_long_absence_is_not_a_short_one() -> None:
    """A restored server may have passed our version by then."""
    pace = WatchBackoff()
    pace.failed(10.0, retry_after=None, uniform=0.0)
    assert not pace.was_away_long(10.0 + watch_health.AWAY_SECONDS_MAX - 1)
    assert pace.was_away_long(10.0 + watch_health.AWAY_SECONDS_MAX)
    pace.listed()
    assert not pace.was_away_long(1e9)


def test_the_third_rejection_in_a_row_asks_for_a_list() -> None:
    """A change in between begins anew."""
    pace = WatchBackoff()
    answers = [pace.rejected() for _ in range(6)]
    assert [relist for _, relist in answers] == [False, False, True, False, False, True]
    assert max(wait for wait, _ in answers) <= watch_health.RETRY_AFTER_SECONDS_MAX
    pace.progressed()
    assert [pace.rejected()[1] for _ in range(2)] == [False, False]


def test_silence_is_suspicious_soon_after_a_change_and_later_less_so() -> None:
    """At rest a server's bookmarks come before it is opened again; a broken neighbour makes it suspicious again."""
    pace = WatchBackoff()
    assert pace.silence_seconds == watch_health.SILENCE_SECONDS_MIN
    for _ in range(10):
        pace.went_silent()
    assert pace.silence_seconds == watch_health.SILENCE_SECONDS_MAX > 60
    pace.suspect()
    assert pace.silence_seconds == watch_health.SILENCE_SECONDS_MIN
    pace.went_silent()
    pace.progressed()
    assert pace.silence_seconds == watch_health.SILENCE_SECONDS_MIN
