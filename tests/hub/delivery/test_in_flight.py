"""What one session has in flight, and what answers settle, however late, doubled or forged."""

import pytest
from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.delivery.in_flight import InFlightMessage, InFlightWindow
from fairlead_hub.settings import NodeDelivery, WindowLimits

POLICY = NodeDelivery(ack_timeout=5)


@pytest.fixture
def flights():
    return InFlightWindow(WindowLimits(messages=2))


def flight(name="a", version="1"):
    one = live(CONFIG_MAP, name, version=version, data={"v": version})
    return InFlightMessage(key=one.key, uid=one.uid, path=one.path, held=one.held, policy=POLICY)


def acked(flights, id, now=0.0, *, cumulative=False):
    """Id and version of all that this ack tells."""
    found = flights.acked(id, cumulative=cumulative, now=now)
    return [(one.id, one.token.held.version) for one in found]


def test_an_ack_settles_a_message_once(flights):
    """A second ack of the same id is no news."""
    one = flight()
    flights.sent(1, one, 10, 0.0)
    assert len(flights) == 1
    assert acked(flights, 1) == [(1, "1")]
    assert len(flights) == 0 and acked(flights, 1) == []


def test_a_late_ack_tells_what_is_held_and_leaves_the_newer_send_in_flight(flights):
    """The first send lapsed, the second is on its way: the first did arrive after all."""
    flights.sent(1, flight(version="1"), 10, 0.0)
    assert [(one.id, one.token.held.version) for one in flights.lapsed(5.0)] == [(1, "1")]
    flights.sent(2, flight(version="2"), 10, 6.0)
    assert acked(flights, 1, 7.0) == [(1, "1")] and len(flights) == 1
    assert acked(flights, 2, 8.0) == [(2, "2")]


def test_an_ack_that_comes_after_a_newer_one_says_nothing(flights):
    """Otherwise the hub would believe in content the edge has replaced."""
    flights.sent(1, flight(version="1"), 10, 0.0)
    list(flights.lapsed(5.0))
    flights.sent(2, flight(version="2"), 10, 6.0)
    assert acked(flights, 2, 7.0) == [(2, "2")]
    assert acked(flights, 1, 8.0) == []


def test_a_nack_names_the_message_it_is_about_once(flights):
    """Also a late one: whether it is still the key's message in flight, the key's state knows."""
    flights.sent(1, one := flight(), 10, 0.0)
    list(flights.lapsed(5.0))
    assert flights.nacked(1, 6.0).token is one
    assert flights.nacked(1, 6.0) is None and flights.nacked(99, 6.0) is None


def test_what_follows_an_answer_on_a_slow_link_counts_from_that_answer(flights):
    """Acks are flowing: the second message waits behind the first, not in vain."""
    flights.sent(1, flight("a"), 10, 0.0)
    flights.sent(2, flight("b"), 10, 0.0)
    assert acked(flights, 1, 4.0) == [(1, "1")]
    assert list(flights.lapsed(5.0)) == [] and flights.next_deadline() == 9.0
    assert [one.token.key for one in flights.lapsed(9.0)] == [flight("b").key]


def test_an_answer_makes_no_deadline_earlier(flights):
    """What was sent long after the last answer keeps its own time, whatever older sends are given."""
    flights.sent(1, flight("a"), 10, 0.0)
    flights.sent(2, flight("b"), 10, 0.0)
    assert acked(flights, 1, 0.1) == [(1, "1")]
    flights.sent(3, flight("c"), 10, 4.0)
    assert list(flights.lapsed(5.05)) == []
    assert [one.id for one in flights.lapsed(5.1)] == [2]
    assert flights.next_deadline() == 9.0


def test_progress_restarts_the_timer_of_what_travels_in_parts_only(flights):
    """A forged progress of a small message buys no time."""
    flights.sent(1, flight("a"), 10, 0.0, in_parts=True)
    flights.sent(2, flight("b"), 10, 0.0)
    flights.progressed(1, 4.0)
    flights.progressed(2, 4.0)
    assert [one.token.key for one in flights.lapsed(5.0)] == [flight("b").key]
    assert len(flights) == 1 and flights.has_room
