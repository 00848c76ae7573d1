"""Which nodes get other authorities, and which are asked to renew because another one signs."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest
from tests.support.hubs.hub_core import NOON, Core

from fairlead_hub.delivery.identities import NodeCertificate
from fairlead_hub.identity.signer import Authority, AuthorityBundle
from fairlead_hub.session_ref import SessionRef
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message

DAY = 86_400.0
FIRST = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
OLD = AuthorityBundle(digest="old", authorities=b"PEM old", certificates="PEM hub")
BOTH = AuthorityBundle(digest="both", authorities=b"PEM both", certificates="PEM hub")


class Site:
    """A core whose signer is ``authority``."""

    def __init__(self, *nodes: str) -> None:
        self.core = Core(*nodes)
        self.authority: Authority | None = Authority(name="nodes 2026", not_before=FIRST)
        self.core.hub.identities.plan.signs(lambda: self.authority)

    def open(self, node: str, issuer: str = "nodes 2026") -> SessionRef:
        issued, expires = (WallClock.text_of(int(NOON + days * DAY)) for days in (-10, 80))
        shown = NodeCertificate(issued=issued, expires=expires, serial="a1", issuer=issuer)
        session = self.core.hub.sessions.open(node, self.core.hello(node), self.core.now, shown)
        assert isinstance(session, SessionRef), session
        self.told(session)
        return session

    def says(self, session: SessionRef, digest: str) -> None:
        content = msgspec.json.encode(message.EdgeStatus(held=0, authorities=digest))
        self.core.hub.sessions.receive(session, message.Status(), content, self.core.now)

    def told(self, session: SessionRef) -> list[tuple[message.Authorities, bytes]]:
        self.core.settle()
        frames = self.core.frames(session)
        return [(header, content) for header, content in frames if isinstance(header, message.Authorities)]

    def counts(self) -> dict[str, int]:
        return dict(self.core.hub.certificates.trust_counts())

    def pass_time(self, seconds: float) -> None:
        self.core.now += seconds
        self.core.hub.heartbeat(self.core.now)


@pytest.fixture
def site() -> Site:
    return Site("edge-1", "edge-2")


def announce(site: Site, bundle: AuthorityBundle) -> int:
    return site.core.hub.certificates.announce(bundle)


def test_only_nodes_that_say_what_they_hold_are_told(site: Site) -> None:
    """An agent from before does not know the frame, and must never get it."""
    knows, before = site.open("edge-1"), site.open("edge-2")
    site.says(knows, "old")
    site.says(before, "")
    assert announce(site, OLD) == 0
    assert site.counts() == {"newest": 1, "other": 0, "unknown": 1}
    assert announce(site, BOTH) == 1
    assert site.told(knows) == [(message.Authorities(certificates="PEM hub"), b"PEM both")]
    assert site.told(before) == [] and site.counts() == {"newest": 0, "other": 1, "unknown": 1}
    site.says(knows, "both")
    assert site.told(knows) == [] and site.counts() == {"newest": 1, "other": 0, "unknown": 1}


def test_a_bundle_is_said_once_in_a_session(site: Site) -> None:
    """Also where the node refuses it; a session that opens later hears it again."""
    announce(site, BOTH)
    session = site.open("edge-1")
    for _ in range(3):
        site.says(session, "old")
    assert len(site.told(session)) == 1 and announce(site, BOTH) == 0
    announce(site, OLD)
    assert site.told(session) == [], "it holds these"
    announce(site, BOTH)
    assert site.told(session) == [] and site.counts()["other"] == 1
    site.core.hub.sessions.closed(session, site.core.now)
    assert site.counts() == {"newest": 0, "other": 0, "unknown": 0}
    again = site.open("edge-1")
    site.says(again, "old")
    assert len(site.told(again)) == 1


def test_a_session_that_ends_is_told_nothing(site: Site) -> None:
    session = site.open("edge-1")
    site.says(session, "old")
    site.core.hub.sessions.refuse(session, message.Refuse(code="draining", reason="", retry_after=1.0))
    assert announce(site, BOTH) == 0 and site.told(session) == []
    site.says(session, "old")
    assert site.told(session) == []


def test_another_signer_asks_nodes_of_the_old_one_within_a_day(site: Site) -> None:
    """Those who renewed already, and agents from before, are left alone; so is each when the hub has just begun."""
    old, new = site.open("edge-1"), site.open("edge-2", issuer="nodes 2027")
    for session in (old, new):
        site.says(session, "old")
    site.pass_time(1.0)
    assert site.told(old) == []
    site.authority = Authority(name="nodes 2027", fingerprint="f2", not_before=FIRST)
    site.pass_time(1.0)
    [(header, content)] = site.told(old)
    assert header.renew_after_seconds is not None and header.renew_after_seconds <= DAY and content == b""
    assert site.told(new) == []
    site.pass_time(1.0)
    assert site.told(old) == []


def test_a_node_that_renewed_in_its_session_is_not_asked_again(site: Site) -> None:
    session = site.open("edge-1")
    site.says(session, "old")
    site.pass_time(1.0)
    begins, ends = (WallClock.text_of(int(NOON + days * DAY)) for days in (1, 91))
    newest = NodeCertificate(issued=begins, expires=ends, serial="b2", issuer="nodes 2027")
    site.core.hub.certificates.renewed(session, newest, site.core.now)
    site.authority = Authority(name="nodes 2027", not_before=FIRST)
    site.pass_time(1.0)
    assert site.told(session) == []


@pytest.mark.parametrize("authority", [None, Authority(name="")])
def test_a_signer_that_is_gone_or_unnamed_asks_no_node(site: Site, authority: Any) -> None:
    session = site.open("edge-1")
    site.says(session, "old")
    site.pass_time(1.0)
    site.authority = authority
    site.pass_time(1.0)
    assert site.told(session) == []
