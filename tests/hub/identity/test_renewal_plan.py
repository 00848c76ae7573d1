"""When a node is asked, by the hub's clock and authority."""

from __future__ import annotations

import datetime

import pytest

from fairlead_hub.identity.renewal_plan import RenewalPlan
from fairlead_hub.identity.signer import Authority
from fairlead_hub.wall_clock import WallClock

DAY = 86_400.0
NOW = 1_800_000_000.0
FACTS = {"issued": WallClock.text_of(int(NOW)), "expires": WallClock.text_of(int(NOW + 90 * DAY)), "issuer": "edges"}


def test_without_a_signer_nothing_is_renewed() -> None:
    plan = RenewalPlan(WallClock(lambda: NOW), lambda: 0.5)
    assert plan.renew_after(**FACTS, now=0.0) is None
    plan.signs(lambda: Authority(name="edges"))
    assert plan.renew_after(**FACTS, now=0.0) == pytest.approx(60 * DAY)


@pytest.mark.parametrize(
    "authority",
    [Authority(name="new"), Authority(name="edges", not_before=datetime.datetime.fromtimestamp(NOW + 1, datetime.UTC))],
)
def test_what_another_authority_signed_is_renewed_within_a_day(authority: Authority) -> None:
    """Also where the new one has the old one's name."""
    plan = RenewalPlan(WallClock(lambda: NOW), lambda: 0.999)
    plan.signs(lambda: authority)
    after = plan.renew_after(**FACTS, now=0.0)
    assert after is not None and 0.9 * DAY < after <= DAY


def test_an_issuer_outside_may_sign_by_any_authority() -> None:
    """Its name is not known here: nothing is renewed earlier for it."""
    plan = RenewalPlan(WallClock(lambda: NOW), lambda: 0.5)
    plan.signs(lambda: Authority(name=""))
    assert plan.renew_after(**FACTS, now=0.0) == pytest.approx(60 * DAY)
