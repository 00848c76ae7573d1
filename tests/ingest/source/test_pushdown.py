"""Conditions the service can answer."""

from __future__ import annotations

import datetime

from fairlead_ingest.source import pushdown
from fairlead_ingest.source.pushdown import ReadScope

NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
NOON_MS = 1_795_176_000_000


def test_conditions_narrow_the_scope():
    scope = pushdown.narrowed(
        ReadScope(),
        [
            ("_topic", "in", ("a/t", "b/t")),
            ("_topic", "=", "b/t"),
            ("_published_at", ">=", NOON),
            ("_published_at", ">", NOON - datetime.timedelta(hours=1)),
            ("_published_at", "<", NOON + datetime.timedelta(seconds=1)),
        ],
    )
    assert scope == ReadScope(topics=frozenset(["b/t"]), from_ms=NOON_MS, until_ms=NOON_MS + 1001)


def test_one_moment_is_a_millisecond():
    assert pushdown.narrowed(ReadScope(), [("_published_at", "=", NOON)]) == ReadScope(
        from_ms=NOON_MS, until_ms=NOON_MS + 1
    )


def test_a_time_without_zone_is_utc():
    assert ReadScope().within(("_published_at", ">", NOON.replace(tzinfo=None))).from_ms == NOON_MS


def test_other_conditions_change_nothing():
    for condition in (("node", "=", "n"), ("_topic", ">", "a"), ("_published_at", ">", "noon")):
        assert ReadScope().within(condition) == ReadScope()
