"""Kinds that stay watched because of a pause."""

import pytest
from tests.support.hubs.live import CONFIG_MAP, SECRET, live

from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.paused_objects import WHY_CHARS_MAX, PausedKinds, is_changed, reason
from fairlead_wire.objects.api_group import PAUSED

CRD = ("shop.io", "Till")


def test_kinds_of_paused_objects_are_watched_until_the_last_is_resumed():
    """At the version they came in."""
    cache = ObjectCache()
    kinds = PausedKinds(cache)
    assert kinds.kinds() == {}
    cache.put(live(SECRET, "a", metadata={"annotations": {PAUSED: "x"}}))
    assert kinds.kinds() == {SECRET.group_kind: ("v1",)}
    cache.put(live(SECRET, "a"))
    assert kinds.kinds() == {}


def test_what_documents_of_an_earlier_hub_say_counts_until_the_kind_is_listed():
    """Then the objects themselves say it."""
    kinds = PausedKinds(ObjectCache())
    kinds.remember({CRD: "shop.io/v1"})
    assert kinds.kinds() == {CRD: ("shop.io/v1",)} and kinds.remembered() == [CRD]
    kinds.kind_synced(CRD)
    assert kinds.kinds() == {} and kinds.remembered() == []


def test_a_hub_that_starts_waits_for_those_documents():
    """Once."""
    kinds = PausedKinds(ObjectCache())
    assert kinds.is_known
    kinds.wait()
    assert not kinds.is_known
    assert kinds.listed() and kinds.is_known
    assert not kinds.listed()


def paused(why, **fields):
    return live(CONFIG_MAP, "a", metadata={"annotations": {PAUSED: why, "other": "x"}}, **fields)


PLAIN = live(CONFIG_MAP, "a", metadata={"annotations": {"other": "x"}}, version="1")


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        (None, ""),
        ({}, ""),
        ({PAUSED: ""}, "no reason given"),
        ({PAUSED: " \n"}, "no reason given"),
        ({PAUSED: "a\n b"}, "a b"),
        ({PAUSED: "x" * 9999}, "x" * WHY_CHARS_MAX),
    ],
)
def test_the_reason_is_one_short_line(annotations, why):
    """Also of an annotation without text: it stands there."""
    assert reason(annotations) == why


def test_the_annotation_is_no_part_of_the_content():
    """Set, changed or removed, the digest is the same; other annotations count as before."""
    assert paused("x").digest == paused("y").digest == PLAIN.digest
    assert paused("x").paused == "x" and PLAIN.paused == ""
    assert live(CONFIG_MAP, "a", metadata={"annotations": {PAUSED: "x"}}).digest == live(CONFIG_MAP, "a").digest


def test_the_object_cache_reports_a_pause_although_the_content_is_the_same():
    """The version of the content stays, and the cache knows which keys are paused."""
    cache = ObjectCache()
    cache.put(PLAIN)
    change = cache.put(paused("x", version="2"))
    assert change is not None and is_changed(change.before, change.after) and cache.paused == {PLAIN.key}
    assert change.after is not None and (change.after.version, change.after.seen_version) == ("1", "2")
    assert change.after.held is PLAIN.held
    assert cache.put(paused("x", version="3")) is None, "nothing is new"
    change = cache.put(live(CONFIG_MAP, "a", metadata={"annotations": {"other": "x"}}, version="4"))
    assert change is not None and is_changed(change.before, change.after) and cache.paused == set()


def test_a_pause_ends_with_its_object():
    """Deleted, or its kind forgotten."""
    cache = ObjectCache()
    cache.put(one := paused("x"))
    change = cache.remove(one.key, one.uid)
    assert change is not None and is_changed(change.before, change.after) and cache.paused == set()
    assert not is_changed(None, None)
