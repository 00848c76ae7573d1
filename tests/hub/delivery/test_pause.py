"""What people do not want the hub to do, as it is read from annotations."""

import pytest

from fairlead_hub.delivery.pause import NodeControls
from fairlead_hub.settings import DeletionGuardSettings as Limits
from fairlead_wire.objects.api_group import APPROVE_DELETIONS, PAUSED, RESYNC


@pytest.fixture
def node_controls():
    return NodeControls(Limits(removals_max=1), text=str)


def test_a_hold_is_there_while_its_annotation_is(node_controls):
    """True says that something changed."""
    assert node_controls.observed("edge-1", {PAUSED: "disk swap"}, {})
    assert not node_controls.observed("edge-1", {PAUSED: "disk swap"}, {})
    assert node_controls.paused("edge-1") == "disk swap" and node_controls.paused("edge-2") == ""
    assert node_controls.observed("edge-1", {}, {}) and node_controls.paused("edge-1") == ""


def test_a_deleted_edge_node_holds_nothing(node_controls):
    """The annotation went with it."""
    node_controls.observed("edge-1", {PAUSED: "x"}, {})
    assert node_controls.vanished("edge-1") and not node_controls.vanished("edge-1")


def tripped(node_controls, node="edge-1"):
    guard = node_controls.guard(node)
    guard.set_due({"a", "b"})
    assert guard.blocked("a", 0.0)
    return guard


def test_the_right_id_approves(node_controls):
    """A wrong one, none, or one that was used says that nothing changed."""
    guard = tripped(node_controls)
    assert not node_controls.observed("edge-1", {APPROVE_DELETIONS: "wrong"}, {})
    assert not node_controls.observed("edge-1", {}, {})
    assert node_controls.observed("edge-1", {APPROVE_DELETIONS: guard.tripped.id}, {})
    assert not node_controls.observed("edge-1", {APPROVE_DELETIONS: guard.tripped.id}, {}) and not guard.stops


def test_a_guard_of_an_earlier_life_is_taken_over_once(node_controls):
    """Our own documents that come back later do not bring it back."""
    said = {"deletionGuard": {"id": "0123abcd", "count": 7, "since": "t"}}
    node_controls.observed("edge-1", {}, said)
    guard = node_controls.guard("edge-1")
    assert guard.stops and (guard.tripped.id, guard.count) == ("0123abcd", 7) and node_controls.tripped() == 1
    guard.set_due(set())
    node_controls.observed("edge-1", {}, said)
    assert not guard.stops


@pytest.mark.parametrize(
    "said", [{"deletionGuard": None}, {"deletionGuard": 7}, {"deletionGuard": {}}, {"deletionGuard": {"id": ""}}, {}]
)
def test_nonsense_in_a_status_trips_nothing(node_controls, said):
    """Every program with the right may write it."""
    node_controls.observed("edge-1", {}, said)
    assert node_controls.guard("edge-1").tripped is None


def test_without_a_limit_there_is_no_guard():
    """Not even one of an earlier life."""
    made = NodeControls(Limits(), text=str)
    made.observed("edge-1", {}, {"deletionGuard": {"id": "0123abcd", "count": 7}})
    assert made.guard("edge-1") is None and made.tripped() == 0


def test_a_resync_is_asked_for_by_each_new_value(node_controls):
    """The first that is seen asks for nothing: a node that comes to a new hub is compared anyway."""
    asked = [node_controls.is_resync_asked("edge-1", {RESYNC: value}) for value in ("", "1", "1", "2", "")]
    assert asked == [False, True, False, True, False]
    assert not node_controls.is_resync_asked("edge-2", {RESYNC: "7"})
    for gone, value in ((node_controls.forget, "8"), (node_controls.vanished, "9")):
        gone("edge-1")  # an EdgeNode may outlive its Node, and nothing of it is kept after both
        assert not node_controls.is_resync_asked("edge-1", {RESYNC: value})
