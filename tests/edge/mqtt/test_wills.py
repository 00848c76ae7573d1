"""Sessions that are kept, and wills that wait."""

from __future__ import annotations

from fairlead_edge.mqtt.client import MqttClient
from fairlead_edge.mqtt.packets import PublishPacket
from fairlead_edge.mqtt.session import Subscribed
from fairlead_edge.mqtt.topics import InputFilter
from fairlead_edge.mqtt.wills import AuthoredWill, KeptSessions
from fairlead_edge.outbox.authorship import Author

CLIENT = MqttClient("m", "m")
SUBSCRIBED = Subscribed(InputFilter("f", "m", "i", False), 1)
WILL = AuthoredWill(PublishPacket("t", b"gone"), Author())


def kept(
    *, seconds: int = 60, delay: int = 0, will: AuthoredWill | None = WILL
) -> tuple[KeptSessions, list[AuthoredWill]]:
    sessions = KeptSessions()
    due = sessions.keep(CLIENT, {"f": SUBSCRIBED}, now=0.0, seconds=seconds, will=will, delay_seconds=delay)
    return sessions, due


def test_a_will_without_a_delay_comes_at_once() -> None:
    sessions, due = kept()
    assert due == [WILL]
    assert sessions.due(1000.0) == []


def test_a_session_that_is_not_kept_publishes_its_will_whatever_the_delay() -> None:
    """5: [MQTT-3.1.3-9]"""
    sessions, due = kept(seconds=0, delay=30)
    assert (due, len(sessions)) == ([WILL], 0)


def test_a_will_comes_after_its_delay_once() -> None:
    sessions, due = kept(delay=30)
    assert due == []
    assert sessions.due(29.0) == []
    assert sessions.due(30.0) == [WILL]
    assert sessions.due(31.0) == []
    assert sessions.take(CLIENT, clean=False, now=32.0) == ((SUBSCRIBED,), [])


def test_a_will_comes_with_the_sessions_end_where_that_is_sooner() -> None:
    sessions, _ = kept(seconds=10, delay=30)
    assert sessions.due(10.0) == [WILL]
    assert len(sessions) == 0


def test_a_client_that_comes_back_in_time_takes_its_will_with_it() -> None:
    sessions, _ = kept(delay=30)
    assert sessions.take(CLIENT, clean=False, now=5.0) == ((SUBSCRIBED,), [])
    assert sessions.due(1000.0) == []


def test_a_clean_start_ends_the_session_and_so_the_will_comes() -> None:
    sessions, _ = kept(delay=30)
    assert sessions.take(CLIENT, clean=True, now=5.0) == (None, [WILL])


def test_a_session_whose_time_is_over_is_none() -> None:
    sessions, _ = kept(will=None)
    assert sessions.take(CLIENT, clean=False, now=60.0) == (None, [])


def test_no_more_sessions_are_kept_than_there_is_room_for() -> None:
    sessions = KeptSessions(most=2)
    due = [
        sessions.keep(MqttClient("", str(n)), {}, now=0.0, seconds=60, will=WILL, delay_seconds=30) for n in range(3)
    ]
    assert due == [[], [], [WILL]]
    assert len(sessions) == 2
    assert sessions.take(MqttClient("", "0"), clean=False, now=1.0) == (None, [])
