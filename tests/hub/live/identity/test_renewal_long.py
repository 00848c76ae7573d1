"""Sessions that are longer than their certificates, and a signer that is away: a real hub and a real agent."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.support.joining.identity_site import IdentitySite, connected, said, serial, until
from tests.support.joining.pki import Authority
from tests.support.kube.cluster import Cluster

MINUTE = datetime.timedelta(minutes=1)
pytestmark = pytest.mark.verify


def test_a_session_outlives_its_certificate_while_the_signer_is_away(kube: Cluster, tmp_path: Path) -> None:
    """Seen at the node and in its EdgeNode meanwhile; with the signer's return it is renewed in the same session."""
    site = IdentitySite(kube, tmp_path)
    try:
        site.node("shop-1")
        right = site.signing.read_bytes()
        # An authority that has ended signs nothing any more.
        ended = Authority(tmp_path / "ended", "edges", private_key=site.edges._key, valid=-MINUTE, age=9 * MINUTE)
        site.signing.write_bytes(ended.certificate.read_bytes())
        site.hub.start()
        agent = site.agent("shop-1", age=9 * MINUTE, valid=MINUTE)
        first = serial(agent)
        agent.start()
        connected(agent)
        until("it fails", lambda: said(agent)["identity"]["renewal"]["code"] == "signer_unavailable", agent)
        until("EdgeNode says why", lambda: "signer_unavailable" in site.identity("shop-1").get("renewal", ""), agent)
        ends = said(agent)["identity"]["expires"]
        until("it has ended", lambda: f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}" > ends, agent)
        assert said(agent)["link"]["state"] == "connected"
        site.signing.write_bytes(right)
        until("it is renewed, at the next attempt", lambda: serial(agent) != first, agent, seconds=200)
        assert len(site.hub.events("session_opened")) == 1
        until("nothing failed since", lambda: not site.identity("shop-1")["renewal"], agent)
    finally:
        site.close()
