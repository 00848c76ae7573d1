"""Nodes that were away until their certificate had ended: real API server, hub and agents, whose clocks are moved."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.fake_clock import FakeClock
from tests.support.joining.identity_site import IdentitySite, connected, pairs, said, serial, until
from tests.support.kube.cluster import Cluster

from fairlead_edge.io.identity.identity_files import IdentityFiles
from fairlead_wire.objects.api_group import APPROVE_IDENTITY

DAY, HOUR = datetime.timedelta(days=1), datetime.timedelta(hours=1)
pytestmark = pytest.mark.verify


class Story:
    """A node whose last session was ``away`` days ago, with a certificate that ended a day after that."""

    def __init__(self, kube: Cluster, folder: Path, *, away: float, settings: str = "") -> None:
        self.clock = FakeClock(folder)
        self.site = IdentitySite(kube, folder, settings)
        self.site.hub.extra = self.clock.environ
        self.site.node("shop-1")
        ends = datetime.timedelta(days=1 - away)
        # Far from two thirds of its life: else the hub would have it renewed at a moment that chance draws.
        self.agent = self.site.agent("shop-1", age=datetime.timedelta(days=away) + HOUR, valid=ends)
        self.agent.extra = self.clock.environ
        self.clock.move(days=-away)
        self.site.hub.start()
        self.agent.start()
        connected(self.agent)
        until("EdgeNode remembers it", lambda: self.site.identity("shop-1").get("serial") == self.first, self.agent)
        until("and its store", lambda: self.site.status("shop-1").get("storeEpoch"), self.agent)

    @property
    def first(self) -> str:
        return serial(self.agent)

    def pass_time(self) -> None:
        """Both are switched off, and come back today."""
        assert self.agent.stop() == 0
        assert self.site.hub.stop() == 0
        self.clock.move()


def held(site: IdentitySite) -> str:
    return str(until("it is held", lambda: site.identity("shop-1").get("held")))


def link_reason(agent: EdgeAgent) -> str:
    return str(said(agent)["link"]["reason"])


def test_a_node_lives_through_120_days_without_a_hub(kube: Cluster, tmp_path: Path) -> None:
    """Its certificate ended 119 days ago.  It proves its key, gets another, and serves and sends as if it was a day."""
    story = Story(kube, tmp_path, away=120, settings="late_days = 120\n")
    site, agent = story.site, story.agent
    try:
        first = story.first
        before = site.status("shop-1")["storeEpoch"]
        story.pass_time()
        site.hub.start()
        agent.start()
        connected(agent)
        assert serial(agent) != first
        until("EdgeNode says so", lambda: site.identity("shop-1").get("serial") == serial(agent), agent)
        assert site.status("shop-1")["storeEpoch"] != before
        [event] = site.hub.events("identity_late")
        assert event["node"] == "shop-1"
        assert '"traceback"' not in agent.log.read_text() + (site.folder / "hub.log").read_text()
    finally:
        site.close()


def test_a_pair_that_was_issued_and_never_used_is_renewed_late(kube: Cluster, tmp_path: Path) -> None:
    """Renewed in its last session, which went on with the certificate it was opened with; both have ended."""
    story = Story(kube, tmp_path, away=60)
    site, agent = story.site, story.agent
    try:
        first = story.first
        story.pass_time()
        files = IdentityFiles.of(agent.folder / "data")
        now = datetime.datetime.now(datetime.UTC)
        pair = site.edges.issue("shop-1", hosts=("shop-1",), begins=now - 59.5 * DAY, valid=-10 * DAY)
        files.use(files.add(pair.key.read_bytes(), pair.certificate.read_bytes()))
        newer = serial(agent)
        site.hub.start()
        agent.start()
        connected(agent)
        assert serial(agent) not in (first, newer)
        until("those that ended are removed", lambda: pairs(agent) == 1, agent)
        assert [event["node"] for event in site.hub.events("identity_late")] == ["shop-1"]
    finally:
        site.close()


def test_a_node_away_for_too_long_is_refused_and_seen(kube: Cluster, tmp_path: Path) -> None:
    """Outside of the grace: the reason is at the node, in the log and in an Event; the store serves on."""
    story = Story(kube, tmp_path, away=120, settings="late_days = 90\n")
    site, agent = story.site, story.agent
    try:
        story.pass_time()
        site.hub.start()
        agent.start()
        until("it says why", lambda: "119 days ago" in link_reason(agent), agent)
        assert "join again with a token" in link_reason(agent)
        assert site.hub.events("late_renewal_refused")[0]["code"] == "too_late"
        until("an Event says so", lambda: "too_late" in kube.kubectl("get", "events", "-A"), agent)
        assert agent.get("/readyz")[0] == 200
    finally:
        site.close()


def test_a_copied_disk_is_held_until_a_person_approves(kube: Cluster, tmp_path: Path) -> None:
    """A copy from before the last session: the same key and certificate, another opening of the store."""
    story = Story(kube, tmp_path, away=60)
    site, agent = story.site, story.agent
    try:
        assert agent.stop() == 0
        copy = tmp_path / "copy"
        shutil.copytree(agent.folder / "data", copy, symlinks=True)
        before = json.loads((copy / "last-session.json").read_text())["storeEpoch"]
        agent.start()
        connected(agent)
        until("a later session", lambda: site.status("shop-1")["storeEpoch"] not in ("", str(before)), agent)
        story.pass_time()
        shutil.rmtree(agent.folder / "data")
        copy.rename(agent.folder / "data")
        site.hub.start()
        agent.start()
        value = held(site)
        until("it says why", lambda: "fairlead node approve shop-1" in link_reason(agent), agent)
        assert site.identity("shop-1")["state"] == "Held"
        assert site.hub.events("identity_held")[0]["code"] == "held"
        assert not site.hub.events("session_opened")[2:]
        kube.kubectl("annotate", "enode", "shop-1", "--overwrite", f"{APPROVE_IDENTITY}={value}")
        connected(agent)
        until("nothing is held", lambda: site.identity("shop-1").get("state") == "Valid", agent)
    finally:
        site.close()
