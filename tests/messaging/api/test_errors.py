"""Errors carry what an answer needs."""

from __future__ import annotations

import pytest

from fairlead_messaging.api import errors


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.Refused("x"), 400), (errors.NotFound("x"), 404), (errors.Conflict("x"), 409), (errors.Gone("x"), 410),
        (errors.TooLarge("x"), 413), (errors.Unavailable("x"), 503),
    ],
)  # fmt: skip
def test_each_has_its_status_and_a_code(error: errors.MessagingError, status: int) -> None:
    """The code is for programs, the text for people."""
    assert (error.status, error.message) == (status, "x")
    assert error.code


def test_facts_travel_with_the_error() -> None:
    """A conflict says which state, a pause how long."""
    assert errors.Conflict("x", code="c", state="aborted").facts == {"state": "aborted"}
    assert errors.Unavailable("x", retry_after_seconds=7).retry_after_seconds == 7
