"""When a node is asked, by the hub's clock and authority."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.identity.renewal import OVERDUE_SECONDS, ROTATION_SECONDS, RenewalPlan, renew_after
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


SECONDS_A_DAY = 86_400.0
LIFE = 90 * SECONDS_A_DAY
DRAWS = st.floats(0, 1, exclude_max=True)


@given(draw=DRAWS, age=st.floats(0, 0.6 * LIFE))
def test_it_is_at_two_thirds_of_life_give_or_take_a_twentieth(draw: float, age: float) -> None:
    at = age + renew_after(issued=1e9, expires=1e9 + LIFE, now=1e9 + age, draw=draw)
    assert at == pytest.approx(2 / 3 * LIFE, abs=0.05 * LIFE + 1)


@given(draw=DRAWS, age=st.floats(0.72 * LIFE, 2 * LIFE))
def test_what_is_overdue_is_asked_for_soon_and_before_the_end(draw: float, age: float) -> None:
    """Also for a certificate that ended during a long session: at once."""
    after = renew_after(issued=1e9, expires=1e9 + LIFE, now=1e9 + age, draw=draw)
    assert 0.0 <= after <= OVERDUE_SECONDS
    assert age >= LIFE or age + after < LIFE


@given(draw=DRAWS)
def test_a_rotation_is_over_within_a_day(draw: float) -> None:
    assert renew_after(issued=1e9, expires=1e9 + LIFE, now=1e9, draw=draw, rotating=True) <= ROTATION_SECONDS


def test_renewals_of_nodes_made_together_are_spread() -> None:
    """A thousand nodes of one hour take turns over nine days, and over a minute when a hub was away too long."""
    found = [renew_after(issued=0, expires=LIFE, now=0, draw=each / 1000) for each in range(1000)]
    assert max(found) - min(found) > 8 * SECONDS_A_DAY
    late = [renew_after(issued=0, expires=LIFE, now=0.9 * LIFE, draw=each / 1000) for each in range(1000)]
    assert min(late) == 0.0 and max(late) == pytest.approx(OVERDUE_SECONDS, rel=0.01)


@given(draw=DRAWS, rotating=st.booleans(), life=st.floats(0, 60), age=st.floats(0, 90))
def test_the_shortest_lives_are_renewed_in_time(draw: float, rotating: bool, life: float, age: float) -> None:
    after = renew_after(issued=0, expires=life, now=age, draw=draw, rotating=rotating)
    assert after >= 0.0
    assert age >= life or age + after <= life
