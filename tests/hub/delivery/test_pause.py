"""What people told the hub not to do, as it is read from annotations."""

import pytest

from fairlead_hub.delivery.pause import HOLD, RELEASE_BRAKE, WHY_CHARS_MAX, NodeControls, hold_of
from fairlead_hub.settings import DeletionGuard as Limits


@pytest.fixture
def restraints():
    return NodeControls(Limits(removals_max=1), text=str)


def test_a_hold_is_there_while_its_annotation_is(restraints):
    """True says that something changed."""
    assert restraints.observed("edge-1", {HOLD: "disk swap"}, {})
    assert not restraints.observed("edge-1", {HOLD: "disk swap"}, {})
    assert restraints.hold("edge-1") == "disk swap" and restraints.hold("edge-2") == ""
    assert restraints.observed("edge-1", {}, {}) and restraints.hold("edge-1") == ""


LONG = "x" * 9999


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "no reason given"), (" \n", "no reason given"), ("a\n b", "a b"), (LONG, LONG[:WHY_CHARS_MAX])],
)
def test_whatever_stands_in_the_annotation_it_holds(text, why):
    """Also nothing, also a novel: one line of bounded length is shown."""
    assert hold_of({HOLD: text}) == why


def test_a_deleted_edge_node_holds_nothing(restraints):
    """The annotation went with it."""
    restraints.observed("edge-1", {HOLD: "x"}, {})
    assert restraints.vanished("edge-1") and not restraints.vanished("edge-1")


def braked(restraints, node="edge-1"):
    brake = restraints.brake(node)
    brake.set_due({"a", "b"})
    assert brake.objection("a", 0.0)
    return brake


def test_the_right_id_releases(restraints):
    """A wrong one, none, or one that was used says that nothing changed."""
    brake = braked(restraints)
    assert not restraints.observed("edge-1", {RELEASE_BRAKE: "wrong"}, {})
    assert not restraints.observed("edge-1", {}, {})
    assert restraints.observed("edge-1", {RELEASE_BRAKE: brake.engaged.id}, {})
    assert not restraints.observed("edge-1", {RELEASE_BRAKE: brake.engaged.id}, {}) and not brake.stops


def test_a_brake_of_an_earlier_life_is_taken_over_once(restraints):
    """Our own documents that come back later do not bring it back."""
    told = {"brake": {"id": "0123abcd", "count": 7, "since": "t"}}
    restraints.observed("edge-1", {}, told)
    brake = restraints.brake("edge-1")
    assert brake.stops and (brake.engaged.id, brake.count) == ("0123abcd", 7) and restraints.braked() == 1
    brake.set_due(set())
    restraints.observed("edge-1", {}, told)
    assert not brake.stops


@pytest.mark.parametrize("told", [{"brake": None}, {"brake": 7}, {"brake": {}}, {"brake": {"id": ""}}, {}])
def test_nonsense_in_a_status_is_no_brake(restraints, told):
    """Anybody with the right may write it."""
    restraints.observed("edge-1", {}, told)
    assert restraints.brake("edge-1").engaged is None


def test_without_a_limit_there_is_no_brake():
    """Not even one of an earlier life."""
    made = NodeControls(Limits(), text=str)
    made.observed("edge-1", {}, {"brake": {"id": "0123abcd", "count": 7}})
    assert made.brake("edge-1") is None and made.braked() == 0
