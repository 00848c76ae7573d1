"""What one session has in flight, and what answers settle, however late, doubled or forged."""

import pytest
from tests.support.live import CONFIG_MAP, live

from fairlead_hub.delivery.in_flight import InFlight, InFlightMessage
from fairlead_hub.settings import Delivery, WindowLimits

POLICY = Delivery(ack_timeout=5)


@pytest.fixture
def flights():
    return InFlight(WindowLimits(messages=2))


def flight(name="a", version="1"):
    one = live(CONFIG_MAP, name, version=version, data={"v": version})
    return InFlightMessage(key=one.key, uid=one.uid, path=one.path, held=one.held, policy=POLICY)


def landed(flights, id, now=0.0, *, cumulative=False):
    return [(one.flight.held.version, one.last) for one in flights.acked(id, cumulative=cumulative, now=now)]


def test_an_ack_lands_a_flight_once(flights):
    """A second ack of the same id is no news."""
    one = flight()
    flights.launch(1, one, 10, 0.0)
    assert one.key in flights and len(flights) == 1
    assert landed(flights, 1) == [("1", True)]
    assert one.key not in flights and landed(flights, 1) == []


def test_a_late_ack_tells_what_is_held_and_leaves_the_newer_send_in_flight(flights):
    """The first send lapsed, the second is on its way: the first did arrive after all."""
    flights.launch(1, flight(version="1"), 10, 0.0)
    assert [one.held.version for one in flights.lapsed(5.0)] == ["1"]
    flights.launch(2, flight(version="2"), 10, 6.0)
    assert landed(flights, 1, 7.0) == [("1", False)]
    assert landed(flights, 2, 8.0) == [("2", True)]


def test_an_ack_that_comes_after_a_newer_one_says_nothing(flights):
    """Otherwise the hub would believe in content the edge has replaced."""
    flights.launch(1, flight(version="1"), 10, 0.0)
    list(flights.lapsed(5.0))
    flights.launch(2, flight(version="2"), 10, 6.0)
    assert landed(flights, 2, 7.0) == [("2", True)]
    assert landed(flights, 1, 8.0) == []


def test_a_late_nack_is_no_second_failure(flights):
    """The lapse has arranged the retry already."""
    flights.launch(1, flight(), 10, 0.0)
    list(flights.lapsed(5.0))
    assert flights.nacked(1, 6.0) is None
    assert flights.nacked(99, 6.0) is None


def test_what_follows_an_answer_on_a_slow_link_counts_from_that_answer(flights):
    """Acks are flowing: the second message waits behind the first, not in vain."""
    flights.launch(1, flight("a"), 10, 0.0)
    flights.launch(2, flight("b"), 10, 0.0)
    assert landed(flights, 1, 4.0) == [("1", True)]
    assert list(flights.lapsed(5.0)) == [] and flights.next_deadline() == 9.0
    assert [one.key for one in flights.lapsed(9.0)] == [flight("b").key]


def test_progress_restarts_the_timer_of_what_travels_in_parts_only(flights):
    """A forged progress of a small message buys no time."""
    flights.launch(1, flight("a"), 10, 0.0, in_parts=True)
    flights.launch(2, flight("b"), 10, 0.0)
    flights.progressed(1, 4.0)
    flights.progressed(2, 4.0)
    assert [one.key for one in flights.lapsed(5.0)] == [flight("b").key]
    assert len(flights) == 1 and flights.has_room
