"""What batch readers ask, and how an answer is read."""

from __future__ import annotations

from fairlead_messaging.client import requests


def test_a_long_poll_takes_its_wait_longer() -> None:
    """Milliseconds in the request, seconds for the one that waits."""
    assert requests.poll("n", "t", wait_ms=1500).wait_seconds == 1.5
    assert requests.plan("n", "t", after="", wait_ms=250).wait_seconds == 0.25
