"""What is acknowledged, singly or together: never more than is durable."""

import pytest

from fairlead_edge.objects.metastore import Absent, Unchanged, WriteRefused
from fairlead_edge.objects.sync.ack_tracker import AckTracker
from fairlead_wire import message

FULL = WriteRefused(code="store_full", reason="no room", permanent=False, retry_after_seconds=5.0)


@pytest.fixture
def receipts():
    made = AckTracker()
    for id in (1, 2, 3, 4):
        made.opened(id)
    return made


def acks(answers):
    return [(one.parent_id, one.cumulative) for one in answers if isinstance(one, message.Ack)]


def test_a_batch_is_one_cumulative_ack(receipts):
    """Everything before it is durable too."""
    assert acks(receipts.settled([(1, Unchanged()), (2, Unchanged()), (3, Unchanged())])) == [(3, True)]


def test_what_overtook_an_open_update_is_acked_by_itself(receipts):
    """2 still arrives in parts: nothing may say that it is durable."""
    assert acks(receipts.settled([(1, Unchanged()), (3, Unchanged()), (4, Absent())])) == [
        (1, True),
        (3, False),
        (4, False),
    ]
    assert acks(receipts.settled([(2, Unchanged())])) == [(2, True)]


def test_a_refusal_is_answered_first_and_holds_nothing_up(receipts):
    """Its nack stands before the cumulative ack that passes over it: the hub must not take it for stored."""
    nack, ack = receipts.settled([(1, Unchanged()), (2, FULL), (3, Unchanged())])
    assert nack == message.Nack(parent_id=2, code="store_full", reason="no room", permanent=False, retry_after=5.0)
    assert ack == message.Ack(parent_id=3, cumulative=True)


def test_an_update_that_is_given_up_no_longer_bounds_the_acks(receipts):
    """A newer message for the same object came first."""
    receipts.refused(1, FULL)
    assert acks(receipts.settled([(2, Unchanged()), (3, Unchanged()), (4, Unchanged())])) == [(4, True)]
