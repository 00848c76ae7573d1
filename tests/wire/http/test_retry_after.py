"""What a peer may ask for."""

from __future__ import annotations

import pytest

from fairlead_wire.http import retry_after


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None), ("", None), ("7", 7.0), ("0", 0.0), ("007", 7.0), ("3601", 3600.0), ("9" * 12, 3600.0),
        ("9" * 100_000, 3600.0), ("0" * 20 + "5", 5.0), ("1e9", None), ("-1", None), ("٣", None), ("1.5", None),
        ("nan", None), ("inf", None), ("Mon, 23 Nov 2026 20:00:00 GMT", None),
    ],
)  # fmt: skip
def test_seconds_within_a_limit(text: str | None, seconds: float | None) -> None:
    """However many digits: more than the limit is the limit."""
    assert retry_after.seconds(text, 3600.0) == seconds
