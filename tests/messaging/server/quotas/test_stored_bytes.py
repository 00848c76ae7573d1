"""How much a namespace holds."""

from __future__ import annotations

from fairlead_messaging.server.quotas import StoredBytes


def test_what_is_on_its_way_counts_and_what_failed_does_not() -> None:
    """So that many at once do not go beyond it together."""
    held = StoredBytes()
    held.coming("a", 10)
    held.coming("a", 5)
    assert held.of("a") == 15
    held.ended("a", 10, stored=True)
    held.ended("a", 5, stored=False)
    assert (held.of("a"), held.of("b")) == (10, 0)


def test_what_is_stored_while_it_is_measured_counts_until_the_next_time() -> None:
    """It may be in what was found or not."""
    held = StoredBytes()
    held.coming("a", 1)
    held.ended("a", 1, stored=True)
    held.begin()
    held.coming("a", 10)
    held.ended("a", 10, stored=True)
    assert held.of("a") == 11
    held.measured({"a": 100})
    assert held.of("a") == 110
    held.begin()
    held.measured({"a": 111})
    assert held.of("a") == 111


def test_a_look_that_failed_forgets_nothing() -> None:
    """The next one begins anew."""
    held = StoredBytes()
    for size in (1, 2):
        held.coming("a", size)
        held.ended("a", size, stored=True)
        held.begin()
    assert held.of("a") == 3
