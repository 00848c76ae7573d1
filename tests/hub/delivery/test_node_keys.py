"""What goes in and what comes out of one node's deliveries, as playbooks.

    assert Playbook() >> put("a", "1") << "update a 1" >> ack("a") << "acked a 1"

``>>`` is what happens to it, ``<<`` what it sends or tells then, in order; nothing else may come out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hubs.live import CONFIG_MAP, live
from tests.support.hubs.wanted_objects import POLICY, WantedObjects

from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.delivery import key_state
from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.delivery.delivery_events import (
    AckedByEdge,
    DeliveryEvent,
    Parked,
    Recovered,
    RemovedAtEdge,
    Retried,
    Unparked,
)
from fairlead_hub.delivery.key_state import IN_SYNC, Cause, KeyInFlight, Queued, Withheld
from fairlead_hub.delivery.node_keys import NodeKeys
from fairlead_hub.session_ref import Frame
from fairlead_hub.settings import DeletionGuardSettings as GuardLimits
from fairlead_hub.settings import Reconcile, WindowLimits
from fairlead_wire import message

Change = Callable[["Playbook"], None]


class Playbook:
    """See the module.  ``held``: objects, as name and content, that the node has from the beginning."""

    def __init__(self, *held: tuple[str, str], messages: int = 100, guard: DeletionGuard | None = None) -> None:
        self.cluster = WantedObjects()
        self.now = 0.0
        self.ids: dict[str, int] = {}
        """By name: the message that was sent last."""
        ids = count(1)
        self.core = NodeKeys(
            "edge-1",
            self.cluster,
            limits=WindowLimits(messages=messages),
            policy=POLICY,
            reconcile=Reconcile(parked_retry_seconds=60),
            take_id=lambda: next(ids),
            guard=guard,
        )
        for name, content in held:
            self.cluster.objects[key_of(name)] = made(name, content)
        self.core.begin({key: one.held for key, one in self.cluster.objects.items()}, 0, 0.0)
        self.core.take_events()
        self._out: list[str] = []
        self._story: list[str] = []

    def __rshift__(self, change: Change) -> Playbook:
        self._nothing_left()
        change(self)
        self.core.tick(self.now)
        # What it tells by itself comes first, then what it sends, then what it tells of that.
        self._tell()
        self._out += [self._sent(frame) for frame in self.core.frames(self.now, 100)]
        self._tell()
        return self

    def __lshift__(self, expected: str) -> Playbook:
        came = self._out.pop(0) if self._out else "nothing"
        self._story.append(came)
        assert came == expected, f"after {self._story[:-1]} came {came}, not {expected}"
        return self

    def __bool__(self) -> bool:
        self._nothing_left()
        return True

    def _nothing_left(self) -> None:
        assert not self._out, f"after {self._story} came {self._out}"

    def _tell(self) -> None:
        self._out += [line_of(event) for event in self.core.take_events()]

    def _sent(self, frame: Frame) -> str:
        header: Any = frame[0]
        name = header.resource.rpartition("/")[2]
        self.ids[name] = header.id
        return f"update {name} {header.resource_version}" if isinstance(header, message.Update) else f"delete {name}"

    def state(self, name: str) -> key_state.State:
        return self.core.state_of(key_of(name))


def made(name: str, content: str, **more: Any) -> LiveObject:
    return live(CONFIG_MAP, name, version=content, data={"content": content}, **more)


def key_of(name: str) -> str:
    return f"configmaps/shop/{name}"


def line_of(event: DeliveryEvent) -> str:
    name = event.key.rpartition("/")[2] if hasattr(event, "key") else ""
    match event:
        case AckedByEdge():
            return f"acked {name} {event.held.version}"
        case Retried() | Parked():
            return f"{_verb(event)} {name} {event.code}"
        case Unparked():
            return f"unparked {name} {event.why}"
        case RemovedAtEdge():
            return f"removed {name}"
    return f"{_verb(event)} {name}"


def _verb(event: DeliveryEvent) -> str:
    return type(event).__name__.lower()


# ---- what happens --------------------------------------------------------------------------------


def put(name: str, content: str, *, priority: int = 5, **more: Any) -> Change:
    """The cluster has this content now."""

    def go(book: Playbook) -> None:
        book.cluster.objects[key_of(name)] = made(name, content, **more)
        book.cluster.priorities[key_of(name)] = priority
        book.core.offer(key_of(name), book.now)

    return go


def remove(name: str) -> Change:
    """The cluster has it no more."""

    def go(book: Playbook) -> None:
        del book.cluster.objects[key_of(name)]
        book.core.offer(key_of(name), book.now)

    return go


def ack(name: str, id: int = 0) -> Change:
    """Of the message that was sent last for it, or of this one."""
    return lambda book: book.core.acked(message.Ack(parent_id=id or book.ids[name]), book.now)


def nack(name: str, code: str = "store_full", *, permanent: bool = False) -> Change:
    return lambda book: book.core.nacked(
        message.Nack(parent_id=book.ids[name], code=code, reason="no", permanent=permanent), book.now
    )


def wait(seconds: float) -> Change:
    def go(book: Playbook) -> None:
        book.now += seconds

    return go


def pause(why: str) -> Change:
    """Empty: it is over."""
    return lambda book: book.core.pause(why, book.now)


def cluster(**state: str) -> Change:
    """Why deletions are blocked, or topics not granted."""

    def go(book: Playbook) -> None:
        for name, why in state.items():
            setattr(book.cluster, name, why)
        book.core.diff(book.now)

    return go


# ---- playbooks -----------------------------------------------------------------------------------


def test_sent_acked_and_removed():
    """A key in sync leaves nothing behind."""
    book = Playbook()
    assert book >> put("a", "1") << "update a 1" >> ack("a") << "acked a 1"
    assert book.state("a") is IN_SYNC and len(book.core.unsynced) == 0
    assert book >> remove("a") << "delete a" >> ack("a") << "removed a"
    assert book.core.held == {} and len(book.core.unsynced) == 0


def test_newer_content_waits_for_the_answer_and_goes_at_once():
    """Well or not; in between only the newest counts."""
    book = Playbook()
    assert book >> put("a", "1") << "update a 1" >> put("a", "2") >> put("a", "3")
    assert book >> ack("a") << "acked a 1" << "update a 3" >> put("a", "4") >> nack("a") << "update a 4"
    assert isinstance(book.state("a"), KeyInFlight)


def test_changed_back_while_in_flight():
    """The ack of what is not wanted any more is followed by what is."""
    book = Playbook(("a", "1"))
    assert book >> put("a", "2") << "update a 2" >> put("a", "1") >> ack("a") << "acked a 2" << "update a 1"


def test_changed_back_before_it_was_sent():
    """Nothing is sent, and nothing waits."""
    book = Playbook(("a", "1"))
    assert book >> pause("maintenance") >> put("a", "2")
    assert book.state("a") == Withheld(Cause.PAUSE, "maintenance")
    assert book >> put("a", "1") >> pause("")
    assert book.state("a") is IN_SYNC


def test_refused_retried_and_parked_then_by_schedule_and_by_something_newer():
    """Two retries by the policy; one by schedule; all again for newer content."""
    book = Playbook() >> put("a", "1") << "update a 1" >> nack("a") << "retried a store_full"
    assert book >> wait(1) << "update a 1" >> nack("a") << "retried a store_full"
    assert book >> wait(2) << "update a 1" >> nack("a") << "parked a store_full"
    assert isinstance(book.state("a"), Parked)
    assert book >> wait(59) >> wait(1) << "unparked a schedule" << "update a 1" >> nack("a") << "parked a store_full"
    assert book >> put("a", "2") << "unparked a newer" << "update a 2" >> nack("a") << "retried a store_full"


def test_parked_and_not_wanted_any_more():
    """What was never stored goes with its record; what is stored is deleted."""
    book = Playbook(("b", "1")) >> put("a", "1") << "update a 1" >> nack("a", permanent=True) << "parked a store_full"
    assert book >> remove("a") << "removed a" << "unparked a unwanted"
    book = book >> put("b", "2") << "update b 2" >> nack("b", permanent=True) << "parked b store_full"
    assert book >> remove("b") << "unparked b unwanted" << "delete b"


def test_answered_too_late():
    """The retry is called off; an ack of older content changes only what is known of the node."""
    book = Playbook() >> put("a", "1") << "update a 1" >> wait(5) << "retried a timeout" >> ack("a") << "acked a 1"
    assert book.state("a") is IN_SYNC
    book = book >> put("a", "2") << "update a 2" >> wait(5) << "retried a timeout" >> put("a", "3") << "update a 3"
    assert book >> ack("a", id=2) << "acked a 2"
    state = book.state("a")
    assert isinstance(state, KeyInFlight)
    assert (state.id, state.content_id) == (3, book.cluster.objects[key_of("a")].content_id)
    assert book >> ack("a") << "acked a 3" >> ack("a", id=2)


def test_urgent_keys_overtake_when_there_is_room():
    """And a key that becomes more urgent while it waits moves up."""
    book = Playbook(messages=1) >> put("a", "1") << "update a 1" >> put("b", "1") >> put("c", "1") >> put("d", "1")
    book = book >> put("d", "2", priority=1) >> ack("a") << "acked a 1" << "update d 2"
    assert book >> ack("d") << "acked d 2" << "update b 1"
    assert book.state("c") == Queued(5)


def test_a_new_object_under_an_old_name():
    """One update takes the place of the old one, whose record goes."""
    book = Playbook(("a", "1")) >> put("a", "2", uid="other") << "update a 2"
    assert book >> ack("a") << "removed a" << "acked a 2"


def test_a_deletion_that_is_blocked_waits_until_it_is_certain():
    """It is no delivery on its way; wanted again, nothing is to be done."""
    book = Playbook(("a", "1"), ("b", "1")) >> cluster(blocked="not listed yet") >> remove("a") >> remove("b")
    assert book.state("a") == Withheld(Cause.DELETION_BLOCKED, "not listed yet") and not book.core.unsynced.pending
    assert book >> put("b", "1") << "recovered b" >> cluster(blocked="") << "delete a"
    assert book.state("b") is IN_SYNC


def test_too_many_deletions_stop_until_they_are_approved():
    """The guard is asked when it would be sent, and again when it says that something changed."""
    guard = DeletionGuard("edge-1", GuardLimits(removals_max=1), news=set(), text=str)
    book = Playbook(("a", "1"), ("b", "1"), guard=guard) >> remove("a") << "delete a" >> remove("b")
    withheld = book.state("b")
    assert isinstance(withheld, Withheld) and withheld.cause is Cause.DELETION_GUARD
    assert guard.tripped is not None and guard.approve(guard.tripped.id)
    assert book >> cluster() << "delete b" >> ack("b") << "removed b" >> ack("a") << "removed a"
    assert not guard.stops


def test_routes_wait_for_their_topics():
    """They are on their way meanwhile, and late if it takes long."""
    book = Playbook() >> cluster(ungranted="alarms is not granted") >> put("a", "1")
    assert book.state("a") == Withheld(Cause.NOT_GRANTED, "alarms is not granted")
    assert list(book.core.unsynced.pending) == [key_of("a")]
    assert book >> cluster(ungranted="") << "update a 1"


def test_a_pause_stops_what_waits_to_be_sent():
    """Retries too; what is due is done when it is over."""
    book = Playbook() >> put("a", "1") << "update a 1" >> nack("a") << "retried a store_full" >> pause("maintenance")
    assert book >> wait(100) and book.core.next_tick() is None
    assert book >> pause("") << "update a 1"


def test_an_unknown_answer_changes_nothing():
    """Forged, doubled, or of another session."""
    book = Playbook() >> put("a", "1") << "update a 1" >> ack("a", id=99)
    assert book >> ack("a") << "acked a 1" >> ack("a") >> nack("a")


# ---- whatever happens ----------------------------------------------------------------------------


def remove_if_there(name: str) -> Change:
    return lambda book: remove(name)(book) if key_of(name) in book.cluster.objects else None


def nack_if_sent(name: str, *, permanent: bool) -> Change:
    return lambda book: nack(name, permanent=permanent)(book) if name in book.ids else None


CHANGES = st.one_of(
    st.builds(put, st.sampled_from("abc"), st.sampled_from("123"), priority=st.integers(0, 2)),
    st.builds(remove_if_there, st.sampled_from("abc")),
    st.builds(partial(ack, ""), st.integers(1, 12)),
    st.builds(nack_if_sent, st.sampled_from("abc"), permanent=st.booleans()),
    st.builds(wait, st.sampled_from([0.5, 1, 5, 60])),
    st.builds(pause, st.sampled_from(["", "maintenance"])),
    st.builds(cluster, blocked=st.sampled_from(["", "not listed"]), ungranted=st.sampled_from(["", "no topics"])),
)


@pytest.mark.slow
@given(st.lists(CHANGES, max_size=40))
def test_whatever_happens_the_table_holds_and_in_the_end_the_node_has_what_it_should(changes):
    """No impossible transition; when everything is answered and nothing stands in the way, there is no record left."""
    book = Playbook(messages=2)

    def go(change):
        book._out.clear()
        book >> change
        for key, record in book.core.unsynced.records():
            held, desired = book.core.held.get(key), book.cluster.objects.get(key)
            if not isinstance(record.state, KeyInFlight | Queued):
                assert (held.content_id if held else None) != (desired.content_id if desired else None)

    for change in changes:
        go(change)
    go(cluster(blocked="", ungranted=""))
    go(pause(""))
    for _ in range(20):
        for name in list(book.ids):
            go(ack(name))
        go(wait(5))
        go(wait(600))
    assert len(book.core.unsynced) == 0
    assert {key: held.content_id for key, held in book.core.held.items()} == {
        key: one.content_id for key, one in book.cluster.objects.items()
    }


# ---- what is offered, and what an answer makes of it ---------------------------------------------


@pytest.fixture
def placed() -> WantedObjects:
    return WantedObjects()


@pytest.fixture
def keys(placed: WantedObjects) -> NodeKeys:
    return NodeKeys(
        "edge-1",
        placed,
        limits=WindowLimits(),
        policy=POLICY,
        reconcile=Reconcile(),
        take_id=partial(next, count(1)),
    )


A = key_of("a")


def test_a_difference_is_queued_and_what_has_a_record_is_looked_at_again(keys: NodeKeys, placed: WantedObjects) -> None:
    """Only differences are counted: wanted ones are sent first, then unwanted ones."""
    kept, gone, new = made("kept", "1"), made("gone", "1"), made("new", "1")
    placed.objects = {one.key: one for one in (kept, gone)}
    keys.begin({one.key: one.held for one in (kept, gone)}, 0, 0.0)
    placed.objects = {kept.key: kept, new.key: new}
    keys.unsynced.move(kept.key, "offered", Queued(5), 0.0)
    assert keys.diff(0.0) == 2
    assert [type(header).__name__ for header, _ in keys.frames(0.0, 9)] == ["Update", "Delete"]
    assert keys.unsynced.state(kept.key) == IN_SYNC


def test_what_was_reported_as_late_is_reported_again_when_that_is_over(keys: NodeKeys, placed: WantedObjects) -> None:
    """Kept, and then wanted again: the status says so without a message."""
    one = made("a", "1")
    placed.blocked = "not listed"
    keys.begin({A: one.held}, 0, 0.0)
    assert keys.frames(0.0, 9) == []
    assert keys.unsynced.state(A) == Withheld(Cause.DELETION_BLOCKED, "not listed")
    keys.reported(A, one.uid, one.path)
    keys.take_events()
    placed.objects[A] = one
    keys.offer(A, 1.0)
    assert keys.take_events() == [Recovered(key=A)] and keys.unsynced.state(A) == IN_SYNC
