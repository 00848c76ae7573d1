"""Requests that are repeated, and those that are not."""

from __future__ import annotations

import time

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.topics import retry
from fairlead_messaging.client.errors import Busy, TimedOut
from fairlead_wire.errors import Temporary


@pytest.mark.parametrize(("refusals", "pause", "tries"), [(3, 1.0, 4), (100, 2.0, 8), (100, 600.0, 1)])
def test_a_service_that_says_not_now_is_asked_again_for_a_while(monkeypatch, refusals, pause, tries):
    """One 503 in twenty would else end every batch of a hundred questions; no longer than a drain may take."""
    waited: list[float] = []
    asked: list[int] = []
    monkeypatch.setattr(time, "sleep", waited.append)

    def question(answer: int) -> int:
        asked.append(answer)
        if len(asked) <= refusals:
            raise Busy("not now", code="overloaded", status=503, retry_after_seconds=pause)
        return answer

    if tries > refusals:
        assert retry.ask(question, 7) == 7
    else:
        with pytest.raises(errors.Wait, match=errors.UNREACHABLE):
            retry.ask(question, 7)
    assert len(asked) == tries
    assert sum(waited) <= 15.0
    assert all(each >= pause for each in waited)


def test_a_service_that_says_nothing_is_asked_once():
    asked: list[int] = []

    def question() -> None:
        asked.append(1)
        raise TimedOut("silent", seconds=30.0)

    with pytest.raises(errors.Wait, match=errors.UNREACHABLE):
        retry.ask(question)
    assert asked == [1]


def test_try_again_later_gets_its_code():
    with pytest.raises(errors.Wait, match=errors.UNREACHABLE), retry.reachable():
        raise Temporary("down")
    with pytest.raises(KeyError), retry.reachable():
        raise KeyError("defect")
