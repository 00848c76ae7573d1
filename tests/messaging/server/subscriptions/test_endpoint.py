"""What an endpoint's answer means."""

from __future__ import annotations

import pytest

from fairlead_messaging.server.subscriptions import endpoint


@pytest.mark.parametrize(
    ("status", "delivered", "final"),
    [(200, True, False), (204, True, False), (301, False, True), (400, False, True), (404, False, True),
     (408, False, False), (425, False, False), (429, False, False), (500, False, False), (503, False, False)],
)  # fmt: skip
def test_answers(status: int, delivered: bool, final: bool) -> None:
    """2xx is delivered; what would be answered the same again is final."""
    assert endpoint.is_delivered(status) is delivered
    assert (not delivered and endpoint.is_final(status)) is final


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("7", 7.0), ("9" * 12, 3600.0), ("9" * 400, None), ("1e9", None), ("-1", None)]
)
def test_what_an_endpoint_may_ask_for(text: str, seconds: float | None) -> None:
    """Whole seconds, within reason."""
    assert endpoint.asked_seconds(text) == seconds
