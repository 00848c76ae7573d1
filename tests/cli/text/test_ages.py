"""Ages as kubectl prints them."""

from __future__ import annotations

import datetime

import pytest

from fairlead_cli.text import quantities

NOW = datetime.datetime(2026, 11, 22, 12, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 120, "5h2m"),
        (9 * 3600 + 120, "9h"),
        (47 * 3600, "47h"),
        (3 * 86_400 + 4 * 3600, "3d4h"),
        (12 * 86_400, "12d"),
        (800 * 86_400, "2y70d"),
        (4000 * 86_400, "10y"),
    ],
)
def test_steps(seconds: float, text: str) -> None:
    """Two units at most, the smaller one only while it matters."""
    assert quantities.short(seconds) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [("2026-11-22T11:59:30Z", "30s"), ("2026-11-22T11:59:30.25", "29s"), ("", ""), (None, ""), ("soon", ""), (5, "")],
)
def test_times_of_the_api(time: object, text: str) -> None:
    """What is no time has no age."""
    assert quantities.since(time, NOW) == text
