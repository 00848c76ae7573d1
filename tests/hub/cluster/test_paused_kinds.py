"""Kinds that stay watched because of a pause."""

from tests.support.hubs.live import SECRET, live

from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.paused_kinds import PausedKinds
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
