"""What an endpoint's answer means."""

from __future__ import annotations

import pytest

from fairlead_messaging.server.subscriptions import subscription


@pytest.mark.parametrize(
    ("status", "delivered", "final"),
    [(200, True, False), (204, True, False), (301, False, True), (400, False, True), (404, False, True),
     (408, False, False), (425, False, False), (429, False, False), (500, False, False), (503, False, False),
     (599, False, False), (199, False, True), (600, False, True), (999, False, True)],
)  # fmt: skip
def test_answers(status: int, delivered: bool, final: bool) -> None:
    """2xx is delivered; what would be answered the same again is final."""
    assert subscription.is_delivered_status(status) is delivered
    assert (not delivered and subscription.is_final_status(status)) is final
