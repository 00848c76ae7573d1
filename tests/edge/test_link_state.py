"""The state of the link, event by event."""

from __future__ import annotations

from fairlead_edge.link_state import LinkState, StaleHub

CONNECTED = LinkState(since=10.0).opened(hub="hub-a", fence=3, now=25.0)


def test_time_before_the_first_session_is_time_without_one() -> None:
    """It counts from the start of the agent."""
    started = LinkState().started(10.0, last_contact=4.0)
    assert (started.state, started.offline_at(12.0), started.last_contact) == ("connecting", 2.0, 4.0)
    assert (CONNECTED.state, CONNECTED.offline_seconds, CONNECTED.offline_at(99.0)) == ("connected", 15.0, 15.0)


def test_an_outage_begins_when_the_session_ended() -> None:
    """Attempts that fail later change the reason, not the time."""
    once = CONNECTED.ended("it hung up", 30.0, dials_again=True)
    again = once.ended("no route", 31.0, dials_again=True)
    assert (once.since, again.since, again.reason, again.state) == (30.0, 30.0, "no route", "connecting")
    assert again.offline_at(35.0) == 20.0
    assert again.opened(hub="hub-b", fence=4, now=40.0).offline_seconds == 25.0


def test_a_refusal_for_good_is_a_state_of_its_own() -> None:
    """The agent does not dial again."""
    refused = CONNECTED.ended("another agent has this identity", 30.0, dials_again=False)
    assert (refused.state, refused.hub, refused.fence) == ("refused", "hub-a", 3)


def test_the_last_contact_stays_over_outages_and_sessions() -> None:
    """Only a message of the hub in an open session moves it."""
    heard = CONNECTED.heard(28.0)
    assert heard.heard(None) == heard
    ended = heard.ended("it hung up", 30.0, dials_again=True)
    assert ended.opened(hub="hub-a", fence=3, now=31.0).last_contact == 28.0


def test_a_higher_fence_is_given_up_only_after_a_while_without_any_session() -> None:
    """The highest that was shown meanwhile is what it goes back to; a session in between begins anew."""
    stale = StaleHub(600.0)
    assert [stale.refused(fence, now) for fence, now in ((16, 0.0), (17, 300.0), (16, 599.9))] == [None] * 3
    assert stale.refused(16, 600.0) == 17
    stale.obeyed()
    assert stale.refused(16, 700.0) is None
