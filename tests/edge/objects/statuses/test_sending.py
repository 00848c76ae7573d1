"""What goes up next, and what waits how long."""

from __future__ import annotations

import pytest

from fairlead_edge.objects.statuses.sending import BACKOFF, WINDOW, Sending
from fairlead_edge.objects.statuses.status_store import Key, StatusSummary


def key(name: str) -> Key:
    return "", "configmaps", "shop", name


def line(name: str, sequence: int) -> StatusSummary:
    return StatusSummary(key=key(name), uid="u", sequence=sequence, state="waiting", at=0.0)


@pytest.fixture
def sending() -> Sending:
    found = Sending()
    for number, name in enumerate("abc"):
        found.put(line(name, number))
    return found


def test_what_changed_longest_ago_goes_first_each_once(sending: Sending) -> None:
    assert [sending.next(0.0) for _ in range(4)] == [key("a"), key("b"), key("c"), None]
    sending.settled(key("a"), 0)
    assert sending.next(0.0) is None and sending.counts() == {"waiting": 2, "written": 1, "refused": 0}


def test_a_newer_one_goes_after_the_answer_about_the_older(sending: Sending) -> None:
    assert sending.next(0.0) == key("a")
    sending.put(line("a", 7))
    assert [sending.next(0.0), sending.next(0.0), sending.next(0.0)] == [key("b"), key("c"), None]
    sending.settled(key("a"), 0)
    assert sending.next(0.0) == key("a")
    sending.settled(key("a"), 7, code="invalid", reason="no")
    assert sending.counts()["refused"] == 1 and sending.next(0.0) is None


def test_pauses_double_up_to_the_longest(sending: Sending) -> None:
    now, waits = 0.0, []
    for _ in range(9):
        assert sending.next(now) == key("a")
        sending.later(key("a"), 0, now, 1.0, asked=None)
        while sending.next(now) is not None:
            pass
        due = sending.next_at(now)
        assert due is not None and sending.next(due - 0.01) is None
        waits.append(due - now)
        now = due
    assert (
        waits[:3] == [BACKOFF.first_seconds, 2 * BACKOFF.first_seconds, 4 * BACKOFF.first_seconds]
        and waits[-1] == BACKOFF.longest_seconds
    )


def test_the_hub_may_ask_for_a_pause_of_all(sending: Sending) -> None:
    sending.next(0.0)
    sending.later(key("a"), 0, 0.0, 0.0, asked=30.0, everything=True)
    assert sending.next(29.9) is None and sending.next_at(1.0) == 30.0
    assert sending.next(30.0) == key("a")


def test_what_a_lost_link_took_goes_again_at_once(sending: Sending) -> None:
    assert sending.next(0.0) == key("a")
    sending.lost(key("a"))
    assert sending.next(0.0) == key("a")
    sending.gone(key("a"))
    sending.lost(key("a"))
    assert sending.next(0.0) == key("b")


def test_no_more_than_the_window_is_unanswered() -> None:
    sending = Sending()
    for number in range(WINDOW + 1):
        sending.put(line(f"n{number}", number))
    taken = [sending.next(0.0) for _ in range(WINDOW + 1)]
    assert taken[-1] is None and sending.next_at(0.0) is None
