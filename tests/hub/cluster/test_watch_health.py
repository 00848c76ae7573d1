"""What is not followed, since when, and whether that is too much."""

from __future__ import annotations

from fairlead_hub.cluster.watch_health import UNREADY_SECONDS, WatchHealth


def test_since_the_first_time_with_the_newest_reason() -> None:
    """A watch that fails again has not been fresh in between."""
    freshness = WatchHealth()
    assert freshness.stale("a", "gone", 1.0)
    assert not freshness.stale("a", "busy", 5.0)
    assert freshness.stale("b", "gone", 3.0)
    assert [(one.collection, one.since, one.reason) for one in freshness.all()] == [
        ("a", 1.0, "busy"),
        ("b", 3.0, "gone"),
    ]
    assert freshness.oldest(11.0) == 10.0
    assert freshness.fresh("a") == 1.0 and freshness.fresh("a") is None
    assert freshness.oldest(11.0) == 8.0
    freshness.fresh("b")
    assert freshness.oldest(11.0) == 0.0


def test_only_what_the_hub_decides_by_makes_it_unready_and_only_after_a_while() -> None:
    """One kind that cannot be watched concerns its own objects alone."""
    freshness = WatchHealth({"nodes"})
    freshness.stale("widgets", "gone", 0.0)
    assert not freshness.is_blind(1e6)
    freshness.stale("nodes", "gone", 100.0)
    assert not freshness.is_blind(100.0 + UNREADY_SECONDS - 1)
    assert freshness.is_blind(100.0 + UNREADY_SECONDS)
    freshness.fresh("nodes")
    assert not freshness.is_blind(1e6)
