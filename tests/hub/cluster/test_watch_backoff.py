"""When a watch is opened again, how long it may be silent, and when it is listed anew."""

from __future__ import annotations

import pytest

from fairlead_hub.cluster import watch_backoff
from fairlead_hub.cluster.watch_backoff import WatchBackoff


def test_a_watch_that_did_its_work_is_opened_again_at_once() -> None:
    """However often it ends: it moved on, or it lived."""
    pace = WatchBackoff()
    for now in range(100):
        pace.opened(now)
        assert pace.ended(now, moved_on=True) == 0.0
        pace.opened(now)
        assert pace.ended(now + watch_backoff.HEALTHY_SECONDS, moved_on=False) == 0.0


def test_a_watch_that_ends_at_once_again_and_again_waits_but_not_for_long() -> None:
    """No loop without a pause, and never more than half a second: an update must not wait longer."""
    pace = WatchBackoff()
    waits = []
    for _ in range(40):
        pace.opened(0.0)
        waits.append(pace.ended(0.0, moved_on=False))
    assert 0.0 < waits[0] <= 0.1 and waits == sorted(waits)
    assert waits[-1] == watch_backoff.REOPEN_SECONDS_MAX < 1.0


@pytest.mark.parametrize("retry_after", [None, 0.0, 600.0, float("inf")])
def test_an_absence_is_asked_about_every_few_seconds(retry_after: float | None) -> None:
    """Whatever the server asks for."""
    pace = WatchBackoff()
    waits = [pace.failed(float(n), retry_after=retry_after, uniform=0.5) for n in range(40)]
    assert max(waits) <= watch_backoff.RETRY_AFTER_SECONDS_MAX
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
    assert not pace.was_away_long(10.0 + watch_backoff.AWAY_SECONDS_MAX - 1)
    assert pace.was_away_long(10.0 + watch_backoff.AWAY_SECONDS_MAX)
    pace.listed()
    assert not pace.was_away_long(1e9)


def test_the_third_rejection_in_a_row_asks_for_a_list() -> None:
    """A change in between begins anew."""
    pace = WatchBackoff()
    answers = [pace.rejected() for _ in range(6)]
    assert [relist for _, relist in answers] == [False, False, True, False, False, True]
    assert max(wait for wait, _ in answers) <= watch_backoff.RETRY_AFTER_SECONDS_MAX
    pace.moved_on()
    assert [pace.rejected()[1] for _ in range(2)] == [False, False]


def test_silence_is_suspicious_soon_after_a_change_and_later_less_so() -> None:
    """At rest a server's bookmarks come before it is opened again; a broken neighbour makes it suspicious again."""
    pace = WatchBackoff()
    assert pace.silence_seconds == watch_backoff.SILENCE_SECONDS_MIN
    for _ in range(10):
        pace.went_silent()
    assert pace.silence_seconds == watch_backoff.SILENCE_SECONDS_MAX > 60
    pace.suspect()
    assert pace.silence_seconds == watch_backoff.SILENCE_SECONDS_MIN
    pace.went_silent()
    pace.moved_on()
    assert pace.silence_seconds == watch_backoff.SILENCE_SECONDS_MIN
