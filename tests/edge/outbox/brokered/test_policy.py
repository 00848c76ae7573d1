"""When a message goes to its module again, unless the settings say otherwise."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_edge.outbox.brokered.policy import BROKERED_POLICY, BrokeredDelivery
from fairlead_wire.delivery_policy import schedule, total_seconds


def test_default_tries_for_a_day() -> None:
    """A module that is being mended finds its messages; one that cannot be mended holds up nothing."""
    delays = schedule(BROKERED_POLICY)
    assert [round(each.seconds) for each in delays[:5]] == [0, 1, 2, 4, 8]
    assert 86_400 <= total_seconds(delays) <= 87_000


def test_what_is_not_given_is_the_default_of_modules() -> None:
    """Judged as a policy is everywhere."""
    policy = msgspec.convert({"maximum_delay_retries": 0}, BrokeredDelivery)
    assert len(schedule(policy)) == 8
    with pytest.raises(msgspec.ValidationError, match="maximum_delay"):
        msgspec.convert({"maximum_delay": 0.5}, BrokeredDelivery)
