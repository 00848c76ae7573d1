"""What is kept of a message that was given to a module."""

from __future__ import annotations

from fairlead_edge.outbox.attempt import Attempt


def test_first_attempt_has_waited_for_nothing() -> None:
    """Waits are added by the failures that cause them."""
    attempt = Attempt(offset=1, id="a", number=1, leased=True, until=60)
    assert (attempt.delay_seconds, attempt.waited_seconds) == (0, 0)
