"""How long a failed key waits, and when it is given up for now."""

import pytest

from fairlead_hub.cluster.content import ContentId
from fairlead_hub.delivery.backoff import Backoff
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.settings import Delivery, Reconcile

POLICY = Delivery(backoff_retries=2, minimum_delay=1, maximum_delay=4)
KEY = "configmaps/shop/a"
X, Y = ContentId("u", "x"), ContentId("u", "y")


@pytest.fixture
def patience():
    return Backoff("edge-1", Reconcile(parked_retry_seconds=60, parked_retry_max_seconds=200))


def park(patience, now):
    one = Parked(
        key=KEY, content_id=X, path="p", code="no", reason="", retries=patience.retries(KEY), next_retry_at=now
    )
    return patience.park(one, now)


def test_the_policys_delays_and_then_none(patience):
    """Two retries, and the third failure is the last."""
    assert [patience.failed(KEY, POLICY, X, None) for _ in range(3)] == [1, 4, None]
    assert patience.retries(KEY) == 2


def test_who_is_asked_to_wait_waits_at_least_so_long(patience):
    """The edge knows when its disk has room again."""
    assert patience.failed(KEY, POLICY, "x", 30.0) == 30.0


def test_something_newer_has_all_its_retries(patience):
    """What failed is not what is wanted any more."""
    patience.failed(KEY, POLICY, X, None)
    assert patience.is_retrying(KEY, X) and not patience.is_retrying(KEY, Y)
    patience.renew(KEY)
    assert patience.retries(KEY) == 0 and patience.failed(KEY, POLICY, Y, None) == 1


def test_a_parked_key_is_tried_once_more_after_twice_as_long_each_time(patience):
    """Up to a limit; the scheduled try has no retries of its own."""
    waits, now = [], 0.0
    for _ in range(4):
        parked = park(patience, now)
        waits.append(parked.next_retry_at - now)
        assert patience.due(parked.next_retry_at - 1) == [] and patience.next_due() == parked.next_retry_at
        now = parked.next_retry_at
        assert patience.due(now) == [KEY]
        patience.unpark(KEY, scheduled=True)
        assert patience.failed(KEY, POLICY, X, None) is None
    assert waits == [60, 120, 200, 200]


def test_who_was_parked_and_changed_begins_anew(patience):
    """Also with the times between its parkings."""
    park(patience, 0.0)
    patience.unpark(KEY, scheduled=False)
    assert patience.failed(KEY, POLICY, X, None) == 1
    assert park(patience, 0.0).next_retry_at == 60


def test_a_node_that_never_fails_costs_nothing(patience):
    """Nothing is due, nobody waits."""
    patience.forget(KEY)
    assert patience.next_due() is None and patience.due(1e9) == []
