"""Who writes."""

from __future__ import annotations

import pytest
from tests.support.topics.cassandra_twin import Disk, TwinJournal

from fairlead_messaging.server.io.stores.cassandra import ownership
from fairlead_messaging.server.io.stores.cassandra.journal import ShardState
from fairlead_messaging.server.io.stores.cassandra.ownership import LEASE_SECONDS, MARGIN_SECONDS, Ownership, TakenOver


class World:
    """A disk, a clock that sleeping moves, and what was lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disk, self.now, self.lost = Disk(), 0.0, 0
        monkeypatch.setattr(ownership, "pause", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def note_lost(self) -> None:
        self.lost += 1

    def instance(self, name: str) -> Ownership:
        return Ownership(self.disk.journal(), f"id of {name}", name, self.note_lost, lambda: self.now)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_silent_owner_is_waited_for(world: World) -> None:
    """For a lease's time and a margin, in which the owner itself has stopped reading."""
    first = world.instance("first")
    first.wait_and_take()
    assert first.is_confirmed()
    second = world.instance("second")
    second.wait_and_take()
    assert world.now >= LEASE_SECONDS + MARGIN_SECONDS and not first.is_confirmed() and second.is_confirmed()
    assert not first.commit(1, 0, b"")
    with pytest.raises(TakenOver, match="second"):
        first.beat(0)
    assert world.lost == 1 and first.taken_by == "second"


def test_time_without_answers_does_not_count(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.instance("first").wait_and_take()
    second, read = world.instance("second"), TwinJournal.read
    slow = iter([0.0, 60.0, 0.0])

    def slowly(journal: TwinJournal) -> ShardState:
        world.now += next(slow, 0.0)
        return read(journal)

    monkeypatch.setattr(TwinJournal, "read", slowly)
    second.wait_and_take()
    assert world.now >= 60 + LEASE_SECONDS + MARGIN_SECONDS


def test_an_owner_that_was_confirmed_at_the_last_moment_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It woke between the other's last look and its taking over, and reads without asking from then on."""
    first = world.instance("first")
    first.wait_and_take()
    second, take = world.instance("second"), TwinJournal.take

    def late(journal: TwinJournal, state: ShardState, owner: str, name: str) -> bool:
        first.beat(0)
        return take(journal, state, owner, name)

    monkeypatch.setattr(TwinJournal, "take", late)
    with pytest.raises(TakenOver, match="first"):
        second.wait_and_take()
    assert first.is_confirmed() and world.disk.state.epoch == first.epoch
    assert not second.is_confirmed()


def test_an_owner_that_gave_it_up_is_not_waited_for(world: World) -> None:
    first = world.instance("first")
    first.wait_and_take()
    first.release(0)
    world.instance("second").wait_and_take()
    assert world.now == 0


def test_an_answer_that_was_lost_is_asked_for_again(world: World) -> None:
    for fate in ("lost", "never"):
        world.disk.fates = [fate]
        owner = world.instance(fate)
        owner.wait_and_take()
        assert owner.is_confirmed() and world.disk.state.epoch == owner.epoch
        owner.release(0)


def test_confirming_is_due_after_a_while(world: World) -> None:
    owner = world.instance("one")
    owner.wait_and_take()
    assert not owner.needs_beat()
    world.now += 3
    assert owner.needs_beat() and owner.is_confirmed()
    world.now += LEASE_SECONDS
    assert not owner.is_confirmed()
    owner.beat(0)
    assert owner.is_confirmed()
