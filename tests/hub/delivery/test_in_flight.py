"""How an object looks on the wire, and what answers settle of what is in flight, however late, doubled or forged."""

import pytest
from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.delivery.in_flight import InFlightMessage, InFlightWindow, delete_frame, parts_of, update_frames
from fairlead_hub.settings import NodeDelivery, WindowLimits
from fairlead_wire import message

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


def test_a_small_object_is_one_frame_with_the_shared_content() -> None:
    """Not a copy: two thousand nodes hold the same bytes."""
    one = live(CONFIG_MAP, "a")
    [(header, content)] = update_frames(7, one, 1 << 20)
    assert isinstance(header, message.Update)
    assert (header.id, header.resource, header.uid, header.chunks) == (7, one.path, one.uid, 0)
    assert content is one.content


def test_a_large_object_travels_in_parts_that_make_up_the_whole() -> None:
    """In order, none larger than asked; exactly one part's length is not large."""
    one = live(CONFIG_MAP, "a", data={"v": "".join(chr(33 + n * 7 % 90) for n in range(3000))})
    size = len(one.content) // 3
    first, *rest = update_frames(7, one, size)
    assert isinstance(first[0], message.Update) and first == (first[0], b"")
    assert first[0].chunks == len(rest) == parts_of(one, size)
    assert [header.index for header, _ in rest if isinstance(header, message.Chunk)] == list(range(len(rest)))
    assert b"".join(part for _, part in rest) == one.content and max(len(part) for _, part in rest) == size
    assert parts_of(one, len(one.content)) == 0


def test_a_delete_names_what_it_is_about() -> None:
    """By UID, so that a newer object under the same name stays."""
    held = live(CONFIG_MAP, "a").held
    assert delete_frame(8, held) == (message.Delete(id=8, resource=held.path, uid=held.uid), b"")
