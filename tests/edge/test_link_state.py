"""The state of the link, event by event."""

from __future__ import annotations

from fairlead_edge.link_state import LinkState, StaleHub

CONNECTED = LinkState(since=10.0).opened(hub="hub-a", fence=3, now=25.0)


def test_time_before_the_first_session_is_time_without_one() -> None:
    started = LinkState().started(10.0, last_contact=4.0)
    assert (started.state, started.offline_at(12.0), started.last_contact) == ("connecting", 2.0, 4.0)
    assert (CONNECTED.state, CONNECTED.offline_seconds, CONNECTED.offline_at(99.0)) == ("connected", 15.0, 15.0)


def test_an_outage_begins_when_the_session_ended() -> None:
    once = CONNECTED.ended("it hung up", 30.0, dials_again=True)
    again = once.ended("no route", 31.0, dials_again=True)
    assert (once.since, again.since, again.reason, again.state) == (30.0, 30.0, "no route", "connecting")
    assert again.offline_at(35.0) == 20.0
    assert again.opened(hub="hub-b", fence=4, now=40.0).offline_seconds == 25.0


def test_a_refusal_for_good_is_a_state_of_its_own() -> None:
    refused = CONNECTED.ended("another agent has this identity", 30.0, dials_again=False)
    assert (refused.state, refused.hub, refused.fence) == ("refused", "hub-a", 3)


def test_the_last_contact_stays_over_outages_and_sessions() -> None:
    heard = CONNECTED.with_contact(28.0)
    assert heard.with_contact(None) == heard
    ended = heard.ended("it hung up", 30.0, dials_again=True)
    assert ended.opened(hub="hub-a", fence=3, now=31.0).last_contact == 28.0


def test_the_highest_number_is_remembered_since_the_first_refusal() -> None:
    found = None
    for fence, now in ((16, 10.0), (17, 300.0), (16, 599.9)):
        found = StaleHub.refused(found, fence, now)
    assert found == StaleHub(since=10.0, highest=17)
    assert [found.lower(now, 600.0) for now in (609.9, 610.0)] == [None, 17]
    assert StaleHub.refused(found, 3, 5.0) == StaleHub(since=5.0, highest=3)


def test_when_a_refused_hub_is_followed_is_known_until_something_else_happens() -> None:
    refused = LinkState(since=10.0).ended("this is 16", 20.0, dials_again=True, follows_at=620.0)
    assert refused.follows_at == 620.0
    assert refused.ended("unreachable", 30.0, dials_again=True).follows_at is None
    assert refused.opened(hub="hub-a", fence=16, now=30.0).follows_at is None
