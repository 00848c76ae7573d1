"""Who is the hub, and with which fencing number."""

import pytest

from fairlead_hub import lease

NOW = 1_800_000_000.0


def taken(current=None, identity="a", wall=NOW, **more):
    return lease.take(current, identity=identity, namespace="default", wall=wall, **more)


def test_the_first_hub_gets_the_first_number():
    """A free Lease is taken at once."""
    first = taken()
    assert isinstance(first, lease.Taken)
    assert first.fence == lease.fence_of(first.body) == 1
    assert first.body["spec"]["holderIdentity"] == "a"


def test_a_restart_does_not_wait_for_itself():
    """The same identity takes over at once after kill -9, under a higher number."""
    again = taken(taken().body, wall=NOW + 1)
    assert isinstance(again, lease.Taken)
    assert again.fence == 2


def test_another_hub_waits_until_it_expires():
    """And is told for how long."""
    held = taken(taken().body, identity="b", wall=NOW + 4)
    assert held == lease.Held(holder="a", seconds=lease.LEASE_SECONDS - 4)
    after = taken(taken().body, identity="b", wall=NOW + lease.LEASE_SECONDS + 1)
    assert isinstance(after, lease.Taken)
    assert after.body["spec"]["leaseTransitions"] == 1


def test_a_released_lease_is_free():
    """A hub that drains does not make its successor wait."""
    assert isinstance(taken(lease.released(taken().body), identity="b", wall=NOW + 0.1), lease.Taken)


def test_renewal_needs_the_holder_and_the_number():
    """Whoever lost the Lease does not write it any more."""
    body = taken().body
    assert lease.renewed(body, identity="a", wall=NOW + 3, fence=1) is not None
    assert lease.renewed(body, identity="b", wall=NOW + 3, fence=1) is None
    assert lease.renewed(body, identity="a", wall=NOW + 3, fence=7) is None


def test_a_restored_lease_cannot_bring_the_number_down():
    """An API server from an older backup has an older number; the edges have seen a higher one."""
    assert taken(taken().body, at_least=40).fence == 40


def test_an_absurd_number_is_not_believed():
    """A restored API server is some hubs behind, not quadrillions; numbers that are used up never come back."""
    assert lease.is_believable(40, 1) and lease.is_believable(1, 40)
    assert not lease.is_believable(2**53, 1)


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 40])
def test_a_number_somebody_wrote_by_hand_is_zero(text):
    """The annotation is input like any other."""
    assert lease.fence_of({"metadata": {"annotations": {lease.FENCE_ANNOTATION: text}}}) == 0


def test_a_lease_without_a_time_is_expired():
    """A broken Lease does not lock everybody out."""
    body = taken().body
    body["spec"]["renewTime"] = "soon"
    assert isinstance(taken(body, identity="b"), lease.Taken)
