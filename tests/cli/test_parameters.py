"""Times as people write them, within limits."""

from __future__ import annotations

import datetime
import time

import click
import pytest

from fairlead_cli import parameters
from fairlead_cli.parameters import Lifetime, PlaceParameter, Url, is_beyond
from fairlead_wire.delivery_policy import DeliveryPolicy

TYPE = Lifetime(datetime.timedelta(minutes=1), datetime.timedelta(days=30))


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60), ("1m", 60), ("90m", 5400), ("1h", 3600), ("30d", 2_592_000), ("720h", 2_592_000)]
)
def test_a_time_with_its_unit(text: str, seconds: int) -> None:
    assert TYPE.convert(text, None, None) == datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1", "is not a duration; write it like 90s, 30m, 12h or 7d"),
        ("1w", "is not a duration"),
        ("-1h", "is not a duration"),
        ("1h30m", "is not a duration"),
        ("١h", "is not a duration"),
        ("0h", "is not a duration"),
        ("59s", "must be from 1m to 30d"),
        ("31d", "must be from 1m to 30d"),
        ("999999999d", "must be from 1m to 30d"),
    ],
)
def test_what_is_no_time_or_beyond_the_limits(text: str, sentence: str) -> None:
    with pytest.raises(click.BadParameter, match=sentence):
        TYPE.convert(text, None, None)


def test_a_default_is_taken_as_it_is() -> None:
    assert TYPE.convert(datetime.timedelta(hours=1), None, None) == datetime.timedelta(hours=1)


# ---- A place in a topic as people write it ----


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
    assert PlaceParameter().convert(text, None, None) == place


def test_how_long_ago() -> None:
    for text, seconds in (("30s", 30), ("15m", 900), ("2h", 7200), ("1d", 86_400)):
        before = time.time() * 1000
        place = PlaceParameter().convert(text, None, None)
        assert isinstance(place, int)
        assert before - 1 <= place + seconds * 1000 <= time.time() * 1000 + 1


@pytest.mark.parametrize("text", ["", "yesterday", "15", "-15m", "15 m", "zz", "9" * 39])
def test_other_texts_are_refused_with_the_forms_that_are_known(text: str) -> None:
    if text == "15":
        assert PlaceParameter().convert(text, None, None) == 15
        return
    with pytest.raises(click.BadParameter, match="must be a message id"):
        PlaceParameter().convert(text, None, None)


def test_an_end_is_a_message_or_a_time() -> None:
    at = 1_700_000_000_000
    assert not is_beyond(ID, None)
    assert not is_beyond(ID, ID)
    assert is_beyond(ID[:-1] + "1", ID)
    assert is_beyond(ID, at)
    assert not is_beyond(ID, at + 1)


# ---- delivery policies on the command line ----


def test_json_becomes_a_policy() -> None:
    made = parameters.Policy().convert('{"minimum_delay": 1}', None, None)
    assert made == DeliveryPolicy(minimum_delay=1)
    assert parameters.Policy().convert(made, None, None) is made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"minimum_delay": 9, "maximum_delay": 1, "jitter": "ful"}', ("maximum_delay: ", "did you mean full")),
        ("{", ("Expecting",)),
        ("[]", ("policy: ",)),
        ("[" * 100_000, ("nested too deeply",)),
    ],
)
def test_everything_wrong_is_said(text: str, says: tuple[str, ...]) -> None:
    with pytest.raises(click.BadParameter) as refused:
        parameters.Policy().convert(text, None, None)
    assert all(part in refused.value.message for part in says)


def test_a_policy_in_a_few_words() -> None:
    none = DeliveryPolicy(
        retries_with_no_delay=0, minimum_delay_retries=0, maximum_delay_retries=0, backoff_retries=0
    )  # fmt: skip
    assert parameters.policy_shown(none) == "no retries"
    assert parameters.policy_shown(DeliveryPolicy()) == "14 retries, delays of 5 to 30 s"


# ---- the address of a program that is asked over HTTP ----


def test_an_address_loses_its_last_slash() -> None:
    assert Url().convert("https://host:1/", None, None) == "https://host:1"


def test_another_is_refused_without_what_may_be_a_password() -> None:
    with pytest.raises(click.BadParameter, match=r"must be http://host:port, is 's3://bucket:\[secret\]'"):
        Url().convert("s3://bucket:hunter2/t", None, None)
