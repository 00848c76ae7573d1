"""Offsets as stored text, the offset after a batch, and where reading starts."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from typing import Any

import pytest

from fairlead_ingest import errors
from fairlead_ingest.source import offsets
from fairlead_ingest.source.offsets import Gap, Offsets, TopicOffset, place_after_batch
from fairlead_messaging.api.responses import Plan


def batch(**changes: Any) -> TopicOffset:
    """A batch of topic generation 1 from 0a to 0f, with these changes."""
    bounds = {"generation": 1, "position": "0f", "start_generation": 1, "start_position": "0a"}
    return TopicOffset(**{**bounds, **changes})


def test_an_offset_survives_the_checkpoint():
    recreated = batch(generation=2, rows=7, gap=Gap(reason="recreated"))
    places = Offsets(service="s", topics={"b/t": recreated, "a/t": TopicOffset.at(1, "")})
    assert offsets.parse_offsets(json.dumps(places.to_dict())) == places


def test_keys_are_sorted_whatever_the_order_of_topics():
    """Spark compares text: another order would be an empty batch."""
    one = Offsets(service="s", topics={"b/t": TopicOffset(), "a/t": TopicOffset()})
    other = Offsets(service="s", topics={"a/t": TopicOffset(), "b/t": TopicOffset()})
    assert json.dumps(one.to_dict()) == json.dumps(other.to_dict())
    assert list(one.to_dict()["topics"]) == ["a/t", "b/t"]


def test_an_offset_at_rest_promises_nothing():
    gap = Gap(reason="expired", upto="0b", rows=2)
    moved = batch(generation=3, start_generation=3, rows=7, gap=gap)
    assert moved.at_rest() == TopicOffset(generation=3, position="0f", start_generation=3, start_position="0f", rows=0)


def test_a_batch_without_new_data_begins_where_it_ends():
    """Spark runs such batches to move watermarks; nothing is promised for them again."""
    end = Offsets(service="s", topics={"a/t": batch(rows=7)})
    assert end.since(end) == Offsets(service="s", topics={"a/t": TopicOffset.at(1, "0f")})
    assert end.since(Offsets(service="s", topics={"a/t": TopicOffset.at(1, "0a")})) == end


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"v": 2}', '{"v": 1, "svc": "s", "topics": {"a": 5}}'])
def test_what_is_no_offset_of_ours_is_refused(text):
    with pytest.raises(errors.Stop, match=errors.BAD_CHECKPOINT):
        offsets.parse_offsets(text)


@pytest.mark.parametrize(
    ("limit", "topics", "expected"), [(None, 2, [None, None]), (10, 3, [4, 3, 3]), (1, 3, [1, 1, 1]), (6, 1, [6])]
)
def test_a_limit_is_shared_and_no_topic_starves(limit, topics, expected):
    assert offsets.share_rows(limit, topics) == expected


@pytest.mark.parametrize(
    ("offset", "expired"),
    [
        (batch(rows=5, total=20, start_total=12), 3),
        (batch(rows=9, total=20, start_total=12), 0),
        (batch(rows=5, gap=Gap(reason="expired", upto="0c", rows=7)), 7),
        (batch(generation=2, rows=5, gap=Gap(reason="recreated")), 0),
    ],
)
def test_totals_say_what_was_gone_before_the_batch_was_planned(offset, expired):
    """Without totals, it is what the service said about an expired start."""
    assert offset.expired == expired


def test_the_total_is_known_at_the_beginning_of_a_topic_or_where_it_was_stored():
    places = (TopicOffset.at(1, ""), TopicOffset.at(1, "0a"), TopicOffset.at(1, "0a", 4))
    assert [each.known_total for each in places] == [0, None, 4]


def test_totals_survive_the_checkpoint_and_older_ones_have_none():
    end = Offsets(service="s", topics={"a/t": batch(rows=5, total=20, start_total=12)})
    assert offsets.parse_offsets(end.to_dict()) == end
    assert list(end.to_dict()["topics"]["a/t"]) == ["f", "fg", "fn", "g", "n", "p", "r"]
    old = {"svc": "s", "topics": {"a/t": {"f": "", "fg": 1, "g": 1, "p": "0a", "r": 1}}, "v": 1}
    assert offsets.parse_offsets(old).topics["a/t"].total is None


@pytest.mark.parametrize(
    "stored",
    [
        '{"svc":"5f0c","topics":{"a/t":{"f":"","fg":0,"g":0,"p":"","r":0}},"v":1}',
        '{"svc":"5f0c","topics":{"a/t":{"f":"0a","fg":3,"g":3,"p":"0f","r":912}},"v":1}',
        '{"svc":"5f0c","topics":{"a/t":{"f":"0a","fg":3,"fn":12,"g":3,"n":924,"p":"0f","r":912}},"v":1}',
        '{"svc":"5f0c","topics":{"a/t":{"f":"0a","fg":3,"g":3,"p":"0f","r":7,"skip":{"reason":"expired","rows":2,"upto":"0b"}}},"v":1}',
        '{"svc":"","topics":{"a/t":{"f":"0a","fg":3,"fn":0,"g":4,"n":5,"p":"02","r":5,"skip":{"reason":"recreated"}}},"v":1}',
    ],
)
def test_what_older_versions_stored_is_read_and_written_as_it_was(stored):
    """Letter by letter: Spark compares the text, and an older version may be started again."""
    found = offsets.parse_offsets(stored)
    assert json.dumps(found.to_dict(), separators=(",", ":")) == stored
    assert offsets.parse_offsets(found.to_dict()) == found


def test_a_start_is_explicit_by_the_names_users_write():
    for plain in ({"g": 3, "p": "0f"}, {"g": 3, "p": "0f", "n": 7}):
        offset = TopicOffset.from_starting(plain)
        assert offset.to_starting() == plain
        assert (offset.generation, offset.position, offset.start_position) == (3, "0f", "0f")


HERE = TopicOffset.at(1, "0a", total=10)


def plan(**fields: Any) -> Plan:
    return Plan(**{"service": "s", "generation": 1, "upto": None, "stable": "0f", "rows": 0, "bytes": 0, **fields})


def test_a_batch_goes_as_far_as_its_plan():
    found = place_after_batch(HERE, plan(upto="0c", rows=2, passed=12), None)
    assert (found.start_position, found.position, found.rows, found.total, found.expired) == ("0a", "0c", 2, 12, 0)


def test_nothing_to_read_and_nothing_to_count_is_no_batch():
    assert place_after_batch(HERE, plan(passed=10), None) is HERE


def test_what_expired_unread_is_a_batch_of_no_rows():
    """As far as the topic is stable, and no further than the query was told to go."""
    found = place_after_batch(HERE, plan(passed=13), None)
    assert (found.position, found.expired) == ("0f", 3)
    assert place_after_batch(HERE, plan(passed=13), "0d").position == "0d"


def test_a_total_that_is_too_low_takes_nothing_back():
    """It is counted from below in the middle of a topic; the next one makes up for it."""
    found = place_after_batch(HERE, plan(upto="0c", rows=4, passed=11), None)
    assert (found.start_total, found.total, found.expired) == (10, 14, 0)


def test_a_gap_is_behind_us_even_if_nothing_follows():
    missing = TopicOffset(generation=1, position="0a", gap=Gap(reason="expired", rows=3, upto="0b"))
    assert place_after_batch(missing, plan(stable="", generation=1), None).position == "0b"


@pytest.mark.parametrize(
    ("position", "start"),
    [
        ("earliest", "earliest"),
        ("table", "table"),
        ("2026-11-20T12:00:00Z", 1795176000000),
        ("2026-11-20T12:00:00", 1795176000000),
        ("2026-11-20T13:00:00+01:00", 1795176000000),
        (datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC), 1795176000000),
        (1795176000000, 1795176000000),
    ],
)
def test_a_start_is_a_name_or_a_moment(position, start):
    assert offsets.parse_starting_position(position) == start


@pytest.mark.parametrize("position", ["soon", -1, True, None, 1.5, datetime.date(2026, 1, 1)])
def test_anything_else_is_refused(position):
    with pytest.raises(ValueError, match="must be"):
        offsets.parse_starting_position(position)


@pytest.mark.process
def test_workers_of_spark_load_no_settings():
    """They start often and by the dozen: a settings model would cost each 11 MB and a tenth of a second."""
    code = "import sys, fairlead_ingest.io.topics.spark_source; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
