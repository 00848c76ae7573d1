"""When a node delivers, closes the door and switches."""

from __future__ import annotations

from fairlead_edge.drain import CLOSED_SECONDS_MAX, FEW, PAUSE_SECONDS, Drain, Observation, Undelivered


def drain(undelivered: Undelivered = "stay") -> Drain:
    return Drain(deadline_seconds=100.0, undelivered=undelivered, now=0.0)


def test_the_door_is_closed_for_the_last_stretch_only() -> None:
    core = drain()
    assert core.next_step(Observation(FEW + 1, 3, True), 1.0) == "open"
    assert core.next_step(Observation(FEW, 3, True), 2.0) == "closed"
    assert core.next_step(Observation(0, 1, True), 3.0) == "closed"  # a request that came before is still being stored
    assert core.next_step(Observation(1, 0, True), 3.1) == "closed"
    assert core.next_step(Observation(0, 0, True), 3.2) == "switch"


def test_nothing_waits_and_the_old_hub_is_away() -> None:
    core = drain()
    assert core.next_step(Observation(0, 0, False), 1.0) == "closed"
    assert core.next_step(Observation(0, 0, False), 1.1) == "switch"


def test_a_link_that_is_lost_opens_the_door_again() -> None:
    """Producers do not wait for a hub that is away; it is closed again later."""
    core = drain()
    assert core.next_step(Observation(5, 0, False), 1.0) == "open"
    assert core.next_step(Observation(5, 0, True), 2.0) == "closed"
    assert core.next_step(Observation(5, 0, False), 2.1 + CLOSED_SECONDS_MAX) == "open"
    assert core.next_step(Observation(5, 0, True), 3.0 + CLOSED_SECONDS_MAX) == "open"
    assert core.next_step(Observation(5, 0, True), 3.0 + CLOSED_SECONDS_MAX + PAUSE_SECONDS) == "closed"


def test_producers_faster_than_the_link_are_stopped_in_the_second_half() -> None:
    core = drain()
    assert core.next_step(Observation(90_000, 0, True), 49.0) == "open"
    assert core.next_step(Observation(90_000, 0, True), 50.0) == "closed"


def test_at_the_deadline_it_stays_or_takes_along() -> None:
    for connected in (False, True):
        assert drain().next_step(Observation(7, 0, connected), 100.0) == "give up"
        core = drain("take-along")
        assert core.next_step(Observation(7, 1, connected), 100.0) == "closed"
        assert core.next_step(Observation(7, 1, connected), 100.1) == "closed"
        assert core.next_step(Observation(8, 0, connected), 100.2) == "switch"
    core = drain()
    assert core.next_step(Observation(7, 0, True), 99.0) == "closed"
    assert core.next_step(Observation(7, 0, True), 100.0) == "give up"
