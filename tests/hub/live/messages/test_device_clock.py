"""Devices whose clock is wrong: a real hub, real agents, and a wall clock that the test moves."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fake_clock import FakeClock
from tests.support.joining.identity_site import IdentitySite, connected, said, serial, until
from tests.support.kube.cluster import Cluster

MINUTE = datetime.timedelta(minutes=1)
YEAR = 365.25
pytestmark = pytest.mark.verify


@pytest.fixture
def site(kube: Cluster, tmp_path: Path) -> Iterator[IdentitySite]:
    made = IdentitySite(kube, tmp_path)
    made.node("shop-1")
    made.hub.start()
    yield made
    made.close()


@pytest.mark.parametrize("year", [1970, 2099])
def test_a_device_that_starts_in_another_century_is_served_and_renews(
    site: IdentitySite, tmp_path: Path, year: int
) -> None:
    """Also for the first time, when it has had no session yet; when its clock is set, that is believed."""
    clock = FakeClock(tmp_path)
    clock.set(datetime.datetime(year, 1, 2, tzinfo=datetime.UTC))
    agent = site.agent("shop-1", age=9 * MINUTE, valid=MINUTE)
    agent.extra = clock.environ
    first = serial(agent)
    agent.start()
    connected(agent)
    assert str(year) in said(agent)["identity"]["clockDistrusted"]
    until("it is renewed", lambda: serial(agent) != first, agent)
    assert agent.stop() == 0
    clock.move()
    agent.start()
    connected(agent)
    assert said(agent)["identity"]["clockDistrusted"] == ""
    assert '"traceback"' not in agent.log.read_text()


@pytest.mark.parametrize("years", [10, -10])
def test_a_clock_that_is_set_while_the_agent_runs_ends_nothing(
    site: IdentitySite, tmp_path: Path, years: float
) -> None:
    """The session stays, the renewal comes when it is due, and after a break the agent is back."""
    clock = FakeClock(tmp_path)
    agent = site.agent("shop-1", age=9 * MINUTE, valid=4.5 * MINUTE)
    agent.extra = clock.environ
    first = serial(agent)
    agent.start()
    connected(agent)
    clock.move(days=years * YEAR)
    until("it is renewed", lambda: serial(agent) != first, agent)
    assert len(site.hub.events("session_opened")) == 1
    assert site.hub.stop() == 0
    until("it notices", lambda: said(agent)["link"]["state"] == "connecting", agent)
    site.hub.start()
    connected(agent)
    assert said(agent)["identity"]["clockDistrusted"]
    assert '"traceback"' not in agent.log.read_text()
