"""How long a failed key waits, and when it is given up for now."""

from fairlead_hub.cluster.content import ContentId
from fairlead_hub.delivery import backoff
from fairlead_hub.settings import NodeDelivery, Reconcile

POLICY = NodeDelivery(backoff_retries=2, minimum_delay=1, maximum_delay=4)
RECONCILE = Reconcile(parked_retry_seconds=60, parked_retry_max_seconds=200)
ONE = ContentId("u", "1")


def retry(failures=None, policy=POLICY, **more):
    return backoff.retry(failures, ONE, policy, node="edge-1", key="configmaps/shop/a", **more)


def test_the_policys_delays_and_then_none():
    """Two retries, and the third failure is the last."""
    first = retry()
    second = retry(first)
    assert [(each.retries, each.previous, each.content_id) for each in (first, second)] == [(1, 1, ONE), (2, 4, ONE)]
    assert retry(second) is None


def test_who_is_asked_to_wait_waits_at_least_so_long():
    """The edge knows when its disk has room again."""
    assert retry(retry_after=30.0).previous == 30.0


def test_jitter_is_the_same_again_for_the_same_node_and_key():
    """A simulation replays; two nodes do not march in step."""
    jittered = NodeDelivery(backoff_retries=5, minimum_delay=1, maximum_delay=100, jitter="full")

    def delays(node):
        failures, found = None, []
        while (failures := backoff.retry(failures, ONE, jittered, node=node, key="k")) is not None:
            found.append(failures.previous)
        return found

    assert delays("edge-1") == delays("edge-1") != delays("edge-2")
    assert len(delays("edge-1")) == 5


def test_a_parked_key_is_tried_once_more_after_twice_as_long_each_time():
    """Up to a limit; the scheduled try has no retries of its own."""
    failures, waits = None, []
    for _ in range(4):
        failures, seconds = backoff.park(failures, ONE, RECONCILE)
        waits.append(seconds)
        assert retry(failures) is None
    assert waits == [60, 120, 200, 200]


def test_parking_forgets_the_retries_before_it():
    """They are reported with the parking; the next one counts its own."""
    failures, _ = backoff.park(retry(), ONE, RECONCILE)
    assert (failures.retries, failures.parkings, failures.content_id) == (0, 1, ONE)
