"""A place in a topic as people write it."""

from __future__ import annotations

import time

import click
import pytest

from fairlead_cli.parameters import PlaceParameter, is_beyond

ID = "0000018bcfe56800" + "0" * 24


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (ID, ID),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("1960-01-01", 0),
    ],
)
def test_ids_and_times(text: str, place: str | int) -> None:
    """A time without a zone is UTC, as everything shown is."""
    assert PlaceParameter().convert(text, None, None) == place


def test_how_long_ago() -> None:
    """In seconds, minutes, hours, days."""
    for text, seconds in (("30s", 30), ("15m", 900), ("2h", 7200), ("1d", 86_400)):
        before = time.time() * 1000
        place = PlaceParameter().convert(text, None, None)
        assert isinstance(place, int)
        assert before - 1 <= place + seconds * 1000 <= time.time() * 1000 + 1


@pytest.mark.parametrize("text", ["", "yesterday", "15", "-15m", "15 m", "zz", "9" * 39])
def test_other_texts_are_refused_with_the_forms_that_are_known(text: str) -> None:
    """Plain digits are milliseconds; only what cannot be is refused."""
    if text == "15":
        assert PlaceParameter().convert(text, None, None) == 15
        return
    with pytest.raises(click.BadParameter, match="none of these"):
        PlaceParameter().convert(text, None, None)


def test_an_end_is_a_message_or_a_time() -> None:
    """The message itself is within; a time is not."""
    at = 1_700_000_000_000
    assert not is_beyond(ID, None)
    assert not is_beyond(ID, ID)
    assert is_beyond(ID[:-1] + "1", ID)
    assert is_beyond(ID, at)
    assert not is_beyond(ID, at + 1)
