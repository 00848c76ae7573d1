"""Pauses that double, spread, up to a limit."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fairlead_wire.backoff import Backoff, equal_jitter, retry_after_seconds

BACKOFF = Backoff(5.0, 3600.0)
DRAWS = st.floats(0, 1, exclude_max=True)


def test_pauses_double_up_to_the_longest() -> None:
    assert [BACKOFF.pause(failures, 1.0) for failures in (0, 1, 2, 9, 10)] == [5.0, 10.0, 20.0, 2560.0, 3600.0]
    assert BACKOFF.pause(10**9, 0.0) == 1800.0


@given(st.integers(0, 10**9), DRAWS, st.none() | st.floats(0, 1e9))
def test_no_less_is_waited_than_asked_for_and_never_more_than_the_longest(
    failures: int, draw: float, asked: float | None
) -> None:
    pause = BACKOFF.pause(failures, draw, asked=asked)
    assert 2.5 <= pause <= 3600.0
    assert asked is None or pause >= min(asked, 3600.0)


@given(st.floats(0, 1e6), DRAWS)
def test_a_pause_is_drawn_from_its_upper_half(seconds: float, draw: float) -> None:
    assert seconds / 2 <= equal_jitter(seconds, draw) <= seconds


# ---- what a peer may ask for ----


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None), ("", None), ("7", 7.0), ("0", 0.0), ("007", 7.0), ("3601", 3600.0), ("9" * 12, 3600.0),
        ("9" * 100_000, 3600.0), ("0" * 20 + "5", 5.0), ("1e9", None), ("-1", None), ("٣", None), ("1.5", None),
        ("nan", None), ("inf", None), ("Mon, 23 Nov 2026 20:00:00 GMT", None),
    ],
)  # fmt: skip
def test_seconds_within_a_limit(text: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(text, 3600.0) == seconds
