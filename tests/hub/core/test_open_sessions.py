"""Which sessions there are, and which have something to do with the next ``take_ready``."""

import pytest
from tests.support.hubs.hub_core import Core

from fairlead_hub.core.open_sessions import OpenSessions


@pytest.fixture
def one():
    """A real session."""
    return Core("edge-1").connect().session


def test_what_is_compared_again_is_touched_and_given_out_once(one):
    """A burst of changes is one comparison; nodes without a session are none."""
    sessions = OpenSessions()
    sessions.add(one)
    sessions.compare(["edge-1", "edge-2"])
    sessions.compare(["edge-1"])
    assert sessions.take_compared() == [one] and sessions.take_compared() == []
    assert sessions.take_touched() == {one} and sessions.take_touched() == set()
    sessions.compare_all()
    assert sessions.take_compared() == [one]


def test_an_offer_touches_the_session_of_the_node(one):
    """A node that is away is brought up to date when it comes back."""
    sessions = OpenSessions()
    sessions.offer("edge-1", "configmaps/shop/a", 0.0)
    assert not sessions.touched
    sessions.add(one)
    sessions.offer("edge-1", "configmaps/shop/a", 0.0)
    assert sessions.touched == {one}
    sessions.forget(one)
    assert not sessions.touched


def test_only_the_newest_session_of_a_node_is_removed(one):
    """The end of an older one does not touch it."""
    sessions, newer = OpenSessions(), Core("edge-1").connect().session
    sessions.add(one)
    sessions.add(newer)
    assert not sessions.remove(one) and sessions.by_node == {"edge-1": newer}
    assert sessions.remove(newer) and sessions.by_node == {}
