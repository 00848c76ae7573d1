"""Monotonic times as people read them."""

from fairlead_hub.wall_clock import CORRECTION_SECONDS, WallClock

NOON = 1_800_000_000.0


def test_seconds_become_rfc_3339():
    """In UTC, whole seconds."""
    clock = WallClock(lambda: NOON)
    assert clock.text(0.0) == "2027-01-15T08:00:00Z"
    assert clock.text(61.9) == "2027-01-15T08:01:01Z"


def test_a_wall_clock_that_is_set_is_followed_and_one_that_drifts_is_not():
    """A moment keeps its text over the small corrections of NTP, or every status would be written again."""
    offset = NOON
    clock = WallClock(lambda: offset)
    before = clock.text(1.0)
    offset = NOON - CORRECTION_SECONDS / 2
    assert clock.text(1.0) == before
    offset = NOON + 3600
    assert clock.text(1.0) == "2027-01-15T09:00:01Z"


def test_a_moment_is_read_as_it_is_written():
    """Anything else is no moment: a document may say what it likes."""
    clock = WallClock(lambda: 1_800_000_000.0)
    assert WallClock.moment(clock.text(7.9)) == 1_800_000_007 and clock.seconds(7.5) == 1_800_000_007.5
    for odd in ("", "yesterday", "2027-01-15T08:00:00", "2027-13-15T08:00:00Z", "<b>"):
        assert WallClock.moment(odd) == 0
    for beyond in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):  # its text would be of no year there is
        assert WallClock.moment(beyond) == 0
