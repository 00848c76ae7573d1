"""What a hub may do under its Lease, on a clock that counts the time it was stopped."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.leadership import lease
from fairlead_hub.leadership.tenure import PAUSE_SECONDS, PULSE_SECONDS, Tenure


def running(tenure, since, until):
    """It runs all the time; returns whether doubt began."""
    at, began = since, False
    while at < until:
        at += PULSE_SECONDS
        began |= tenure.ran(at)
    return began


def test_nothing_is_written_before_the_first_renewal():
    assert Tenure(0.0).seconds_left(0.0) == 0


def test_writes_last_as_long_as_the_lease_that_was_asked_for():
    """From when it was asked for, not from when the answer came."""
    tenure = Tenure(0.0)
    tenure.renewed(asked_at=1.0, now=4.0)
    assert tenure.seconds_left(4.0) == lease.LEASE_SECONDS - 3
    assert tenure.seconds_left(1.0 + lease.LEASE_SECONDS) == 0


def test_while_the_api_server_is_away_nodes_are_served_on():
    """It ran all the time, and no other hub can have taken over."""
    tenure = Tenure(0.0)
    tenure.renewed(0.0, 0.0)
    assert not running(tenure, 0.0, 300.0)
    assert not tenure.doubted and tenure.seconds_left(300.0) == 0


def test_stopped_for_longer_than_the_lease_it_must_ask_first():
    """The first to look after the pause finds out; a renewal ends it."""
    tenure = Tenure(0.0)
    tenure.renewed(0.0, 0.0)
    assert tenure.ran(40.0) and tenure.doubted
    assert not tenure.ran(40.1), "said once"
    tenure.renewed(asked_at=1.0, now=41.0)
    assert tenure.doubted, "an answer to what was asked before the pause says nothing"
    tenure.renewed(asked_at=40.5, now=41.0)
    assert not tenure.doubted


def test_a_short_pause_is_none():
    """Its Lease is good still."""
    tenure = Tenure(0.0)
    tenure.renewed(0.0, 0.0)
    assert not tenure.ran(lease.LEASE_SECONDS - 1)


@given(st.lists(st.tuples(st.integers(1, 480).map(lambda n: n / 16), st.booleans()), max_size=30))
def test_no_hub_speaks_that_may_have_been_replaced_in_a_pause(steps):
    """Whatever the pauses and renewals: a rival that saw the last renewal as late as possible has to wait still.

    Each step is a pause and whether a renewal is answered right after it; in sixteenths of a second, which sums of
    floats hold exactly.
    """
    tenure, now, renewed_at = Tenure(0.0), 0.0, float("-inf")
    for pause, answered in steps:
        now += pause
        tenure.ran(now)
        if pause >= PAUSE_SECONDS and now - renewed_at >= lease.LEASE_SECONDS:
            assert tenure.doubted
        if answered:
            tenure.renewed(now, now)
            renewed_at = now
            assert not tenure.doubted
        assert (tenure.seconds_left(now) > 0) == (now - renewed_at < lease.LEASE_SECONDS)
