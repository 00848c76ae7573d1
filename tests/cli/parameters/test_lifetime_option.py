"""Times as people write them, within limits."""

from __future__ import annotations

import datetime

import click
import pytest

from fairlead_cli.parameters import Lifetime

TYPE = Lifetime(datetime.timedelta(minutes=1), datetime.timedelta(days=30))


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60), ("1m", 60), ("90m", 5400), ("1h", 3600), ("30d", 2_592_000), ("720h", 2_592_000)]
)
def test_a_time_with_its_unit(text: str, seconds: int) -> None:
    """Both limits are allowed."""
    assert TYPE.convert(text, None, None) == datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1", "is no time; write it like 90s, 30m, 12h or 7d"),
        ("1w", "is no time"),
        ("-1h", "is no time"),
        ("1h30m", "is no time"),
        ("١h", "is no time"),
        ("0h", "is no time"),
        ("59s", "must be from 1m to 30d"),
        ("31d", "must be from 1m to 30d"),
        ("999999999d", "must be from 1m to 30d"),
    ],
)
def test_what_is_no_time_or_beyond_the_limits(text: str, sentence: str) -> None:
    with pytest.raises(click.BadParameter, match=sentence):
        TYPE.convert(text, None, None)


def test_a_default_is_taken_as_it_is() -> None:
    """click converts defaults, too."""
    assert TYPE.convert(datetime.timedelta(hours=1), None, None) == datetime.timedelta(hours=1)
