"""The hub's clock against the API server's."""

import pytest

from fairlead_hub.identity import clock_skew

DATE, AT = "Tue, 01 Jan 2030 00:00:00 GMT", 1_893_456_000.0


def test_the_difference_has_a_sign():
    """Ahead is positive; people read it in words."""
    assert clock_skew.skew(DATE, AT + 40) == 40 and clock_skew.skew(DATE, AT - 2.5) == -2.5
    assert "40 s ahead of" in clock_skew.text(40) and "2.6 s behind" in clock_skew.text(-2.6)


@pytest.mark.parametrize("date", ["", "noise", "Tue, 99 Jan 2030 00:00:00 GMT"])
def test_no_date_says_nothing(date: str):
    """A proxy may drop it."""
    assert clock_skew.skew(date, AT) is None


def test_nothing_is_signed_by_a_clock_that_is_far_off():
    """Either way."""
    assert clock_skew.refusal(300) is None and clock_skew.refusal(-300) is None
    for seconds in (300.1, -301):
        found = clock_skew.refusal(seconds)
        assert found is not None and (found.code, found.retry_after) == ("clock", 30)
