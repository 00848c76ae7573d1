"""Certificates that are renewed in the session: a real API server, a real hub, real agents."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.joining.identity_site import IdentitySite, connected, pairs, said, serial, until
from tests.support.kube.cluster import Cluster

MINUTE = datetime.timedelta(minutes=1)
pytestmark = pytest.mark.verify


def in_days(days: float) -> str:
    return f"{datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def site(kube: Cluster, tmp_path: Path) -> Iterator[IdentitySite]:
    made = IdentitySite(kube, tmp_path)
    yield made
    made.close()


def test_a_certificate_is_renewed_and_the_session_stays(site: IdentitySite) -> None:
    """One that is almost over: the node gets another at once; the old pair stays until the new one opened a session."""
    site.node("shop-1")
    site.hub.start()
    agent = site.agent("shop-1", age=9 * MINUTE, valid=MINUTE)
    first = serial(agent)
    agent.start()
    connected(agent)
    until("it is renewed", lambda: serial(agent) != first, agent)
    new = serial(agent)
    until("its answer is used", lambda: said(agent)["identity"]["renewal"]["state"] == "due", agent)
    status = said(agent)
    assert status["identity"]["serial"] == new and status["identity"]["renewal"]["failures"] == 0
    assert pairs(agent) == 2
    assert len(site.hub.events("session_opened")) == 1 and not site.hub.events("session_closed")
    until("EdgeNode says until when", lambda: site.identity("shop-1").get("expires", "") > in_days(80), agent)
    assert site.hub.metric("fairlead_hub_renewals_total") == 1
    assert [each["node"] for each in site.hub.events("identity_renewed")] == ["shop-1"]
    assert agent.stop() == 0
    agent.start()
    connected(agent)
    until("the old pair is gone", lambda: pairs(agent) == 1, agent)
    until("EdgeNode names the new one", lambda: site.identity("shop-1").get("serial") == new, agent)
    assert site.identity("shop-1")["state"] == "Valid"
    assert '"traceback"' not in agent.log.read_text() + (site.folder / "hub.log").read_text()
