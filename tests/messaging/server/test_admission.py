"""Who may stay when there is no room: rules, without sockets."""

from __future__ import annotations

from random import Random

import pytest

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.server.admission import (
    HEAD_SECONDS,
    IDLE_SECONDS,
    PROBES_MAX,
    Admission,
    AdmissionVerdict,
    ConnectionLimits,
    MemoryBudget,
    limits_of,
)

SMALL = ConnectionLimits(total=10, peer=6, peer_waiting=3, probes=2)


def admit(table: Admission, key: str, peer: str = "a", now: float = 0.0) -> tuple[AdmissionVerdict, list[object]]:
    verdict, closed = table.admit(key, peer, now)
    return verdict, list(closed)


def test_the_longest_waiting_of_a_peer_goes_for_its_next() -> None:
    table = Admission(SMALL)
    for key in ("1", "2", "3"):
        admit(table, key)
    table.begin("1")
    admit(table, "4")
    assert admit(table, "b1", "b") == (AdmissionVerdict.ADMITTED, [])
    assert admit(table, "5") == (AdmissionVerdict.ADMITTED, ["2"])
    table.rest("1", 5.0)
    assert admit(table, "6") == (AdmissionVerdict.ADMITTED, ["3"])


def test_a_flood_of_one_kind_costs_the_other_nothing() -> None:
    """Half requests do not close connections that are in use, nor idle ones those that have just come."""
    table = Admission(ConnectionLimits(total=100, peer=100, peer_waiting=5))
    admit(table, "used")
    table.begin("used")
    table.rest("used", 1.0)
    closed = [key for number in range(20) for key in admit(table, str(number), now=2.0)[1]]
    assert closed == [str(number) for number in range(16)]
    table = Admission(ConnectionLimits(total=100, peer=100, peer_waiting=5))
    for number in range(5):
        admit(table, str(number))
        table.begin(str(number))
        table.rest(str(number), 1.0)
    assert [admit(table, key)[1] for key in ("new", "newer")] == [["0"], ["1"]]


def test_when_all_are_answered_there_is_room_for_probes() -> None:
    table = Admission(SMALL)
    for number in range(6):
        admit(table, str(number))
        table.begin(str(number))
    assert admit(table, "p1") == (AdmissionVerdict.PROBES_ONLY, [])
    assert table.is_for_probes("p1") and not table.is_for_probes("1")
    assert admit(table, "p2") == (AdmissionVerdict.ADMITTED, ["p1"])
    table.begin("p2")
    assert admit(table, "p3")[0] is AdmissionVerdict.PROBES_ONLY
    table.begin("p3")
    assert admit(table, "p4")[0] is AdmissionVerdict.PROBES_ONLY
    table.begin("p4")
    assert admit(table, "p5") == (AdmissionVerdict.REFUSED, [])
    assert admit(table, "b1", "b") == (AdmissionVerdict.ADMITTED, [])


def test_deadlines() -> None:
    table = Admission(SMALL)
    admit(table, "silent", now=0.0)
    admit(table, "busy", now=0.0)
    table.begin("busy")
    assert table.overdue(HEAD_SECONDS - 0.1) == []
    assert table.overdue(HEAD_SECONDS) == ["silent"]
    assert table.overdue(1000.0) == []
    table.rest("busy", 1000.0)
    assert table.overdue(1000.0 + IDLE_SECONDS - 0.1) == []
    assert table.overdue(1000.0 + IDLE_SECONDS) == ["busy"]
    assert len(table) == 0


def test_limits_follow_the_descriptors() -> None:
    assert limits_of(1024) == ConnectionLimits(total=640, peer=512, peer_waiting=160)
    assert limits_of(10).total >= PROBES_MAX
    assert limits_of(10**6).total == 20_000


def test_no_history_breaks_the_bounds() -> None:
    for seed in range(50):
        random, table, alive = Random(seed), Admission(SMALL), set[str]()
        active: set[str] = set()
        for step in range(300):
            match random.randrange(5):
                case 0 | 1:
                    verdict, closed = admit(table, str(step), random.choice("abc"), float(step))
                    assert not set(closed) & active
                    alive -= {str(each) for each in closed}
                    if verdict is not AdmissionVerdict.REFUSED:
                        alive.add(str(step))
                case 2 if alive:
                    key = random.choice(sorted(alive))
                    table.begin(key)
                    active.add(key)
                case 3 if active:
                    key = random.choice(sorted(active))
                    table.rest(key, float(step))
                    active.discard(key)
                case 4 if alive:
                    key = random.choice(sorted(alive))
                    table.leave(key)
                    alive.discard(key)
                    active.discard(key)
            late = {str(each) for each in table.overdue(float(step))}
            assert not late & active
            alive -= late
            assert len(table) == len(alive) <= SMALL.total + SMALL.probes
            assert table.waiting == len(alive - active)


# --- Bytes in use for callers are bounded.


def test_what_does_not_fit_is_refused_and_leaves_nothing() -> None:
    budget = MemoryBudget(10, "too_many_bodies")
    budget.take(6)
    with pytest.raises(Unavailable) as refused:
        budget.take(5)
    assert (refused.value.code, budget.in_use) == ("too_many_bodies", 6)
    assert refused.value.retry_after_seconds > 0
    budget.take(4)
    budget.release(10)
    assert budget.in_use == 0


def test_what_is_there_already_is_counted_and_keeps_others_out() -> None:
    budget = MemoryBudget(10, "too_many_pages")
    budget.check()
    budget.add(25)
    with pytest.raises(Unavailable):
        budget.check()
    budget.release(20)
    budget.check()
