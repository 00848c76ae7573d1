"""What the nodes publish comes from real series, in order, and alarms follow their reading."""

from __future__ import annotations

import pytest
from e2e.demo import replay
from e2e.demo.story import SHARES

HOURS = "date,temp\n2010/05/31 23:00,50\n2010/06/01 00:00,50.5\n2010/06/01 01:00,54\n"
DAYS = "date,precipitation,temp_max,temp_min,wind,weather\n2012/01/01,30,9,3,1,rain\n2012/01/02,0,9,3,1,sun\n"


def test_a_swing_within_the_hour_is_an_alarm() -> None:
    """Readings before summer only serve for comparison."""
    readings = list(replay.hourly("here", HOURS))
    assert [(each.values["temperature_f"], each.alarm) for each in readings] == [(50.5, ""), (54.0, "swing")]


def test_much_rain_in_a_day_is_an_alarm() -> None:
    """A flood is one; a dry day is none."""
    assert [each.alarm for each in replay.daily("here", DAYS)] == ["flood", ""]


def test_an_alarm_follows_its_telemetry_with_priority_zero() -> None:
    """The reading itself always goes to the table; the alarm is a second message."""
    said = list(replay.publications(replay.daily("here", DAYS)))
    assert [each.priority for each in said] == [1, 0, 1]
    assert said[1].message["properties"] == {"station": "here", "level": "alarm", "kind": "flood"}
    assert said[1].message["body"]["precipitation"] == 30.0


def test_parts_are_consecutive_and_refuse_what_is_too_few() -> None:
    """Nothing is published twice, nothing left out in between."""
    said = list(replay.publications(replay.daily("here", DAYS)))
    assert replay.parts(said, [1, 2]) == [said[:1], said[1:]]
    with pytest.raises(ValueError, match="3 publications are too few"):
        replay.parts(said, [2, 2])


def test_the_shipped_series_have_alarms_and_telemetry_in_every_part() -> None:
    """Each act of the story needs both priorities from every node."""
    for node, said in replay.series().items():
        for part in replay.parts(said, SHARES):
            assert {each.priority for each in part} == {0, 1}, node
