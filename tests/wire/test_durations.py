"""Durations for people."""

from __future__ import annotations

import pytest

from fairlead_wire.durations import span


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3599, "59 min 59 s"),
        (18_130, "5 h 2 min"),
        (86_400, "1 d"),
        (965_000, "11 d 4 h"),
    ],
)
def test_spans_in_the_units_people_say(seconds: float, words: str) -> None:
    assert span(seconds) == words
