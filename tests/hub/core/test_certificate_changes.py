"""Renewals and late renewals, as the core decides and remembers them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from tests.support.hubs.hub_core import NOON, Core

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.delivery.identities import NodeCertificate
from fairlead_hub.identity.late_renewal import Claim
from fairlead_hub.identity.signer import Authority
from fairlead_hub.session_ref import SessionRef
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message

DAY = 86_400.0
AUTHORITY = Authority(name="edges", not_before=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))


def shown(age_days: float = 0.0, *, issuer: str = "edges", serial: str = "a1") -> NodeCertificate:
    """Of ninety days."""
    issued, expires = NOON - age_days * DAY, NOON + (90 - age_days) * DAY
    texts = [WallClock.text_of(int(each)) for each in (issued, expires)]
    return NodeCertificate(issued=texts[0], expires=texts[1], serial=serial, issuer=issuer)


@pytest.fixture
def core() -> Core:
    made = Core("edge-1")
    made.hub.identities.plan.signs(lambda: AUTHORITY)
    return made


def open_session(core: Core, certificate: NodeCertificate | None, **more: Any) -> tuple[SessionRef, message.Welcome]:
    session = core.hub.sessions.open("edge-1", core.hello("edge-1", **more), core.now, certificate)
    assert isinstance(session, SessionRef), session
    core.settle()
    [(welcome, _), *_] = core.frames(session)
    assert isinstance(welcome, message.Welcome)
    return session, welcome


async def identity(core: Core) -> dict[str, Any]:
    core.now += 60.0
    await core.report()
    return dict(core.api.documents[EDGE_NODES, "", "edge-1"].status["identity"])


def claim(certificate: NodeCertificate, *, epoch: int = 7) -> Claim:
    before, after = (WallClock.moment(each) for each in (certificate.issued, certificate.expires))
    return Claim(node="edge-1", serial=certificate.serial, not_before=before, not_after=after, store_epoch=epoch)


def test_the_welcome_says_when_to_renew(core: Core) -> None:
    """At two thirds of life; soon where another authority signs now; never where there is none, or no certificate."""
    assert open_session(core, shown(10))[1].renew_after_seconds == pytest.approx(50 * DAY, abs=2)
    assert (open_session(core, shown(10, issuer="before"))[1].renew_after_seconds or 0) <= DAY
    assert open_session(core, None)[1].renew_after_seconds is None
    core.hub.identities.plan.signs(lambda: None)
    assert open_session(core, shown(10))[1].renew_after_seconds is None


async def test_a_renewal_shows_until_when_and_the_session_stays(core: Core) -> None:
    session, _ = open_session(core, shown(60))
    core.take_cloud_events()
    core.hub.certificates.renewed(session, shown(0, serial="b2"), core.now)
    assert [each.type for each in core.take_cloud_events()] == ["identity.renewed"]
    found = await identity(core)
    assert (found["expires"], found["serial"]) == (shown(0).expires, "a1"), "b2 was not used yet"
    assert core.hub.sessions.is_open(session)
    core.hub.sessions.closed(session, core.now)
    assert not core.hub.sessions.is_open(session)
    open_session(core, shown(0, serial="b2"))
    assert (await identity(core))["serial"] == "b2"


async def test_a_renewal_that_failed_is_seen_until_one_succeeds(core: Core) -> None:
    session, _ = open_session(core, shown(60))
    core.hub.certificates.renewal_failed(session, "signer_unavailable", "the issuer is away", core.now)
    assert (await identity(core))["renewal"] == "signer_unavailable: the issuer is away"
    core.hub.certificates.renewed(session, shown(0), core.now)
    assert (await identity(core))["renewal"] == ""


async def test_a_certificate_that_ends_in_a_session_does_not_end_it(core: Core) -> None:
    """Its name was proven when it opened; what ends it is a revocation.  It is renewed at once when it can be."""
    session, welcome = open_session(core, shown(89.999))
    assert (welcome.renew_after_seconds or 0.0) <= 60.0
    core.now += 10.0
    for _ in range(60):
        core.now += 10.0
        core.hub.sessions.receive(session, message.Keepalive(), b"", core.now)
        core.hub.heartbeat(core.now)
        core.settle()
        core.frames(session)
    assert core.hub.sessions.is_open(session)
    core.hub.certificates.renewed(session, shown(-0.01), core.now)


async def test_who_comes_late_with_what_was_used_last_is_let_in(core: Core) -> None:
    """And what is remembered survives the hub: the next one judges by the EdgeNode."""
    session, _ = open_session(core, shown(89.9))
    assert core.hub.certificates.judge_late(claim(shown(89.9)), core.now) is not None, "it is connected"
    core.hub.sessions.closed(session, core.now)
    await identity(core)
    assert core.hub.certificates.judge_late(claim(shown(89.9)), core.now) is None
    later = Core("edge-1", listed=False)
    later.api = core.api
    found = later.hub.certificates.judge_late(claim(shown(89.9)), later.now)
    assert found is not None and found.code == "starting"
    later.annotate("edge-1")
    later.list_all()
    assert later.hub.certificates.judge_late(claim(shown(89.9)), later.now) is None
    assert later.hub.certificates.judge_late(claim(shown(89.9), epoch=8), later.now) is not None


async def test_what_looks_like_a_copy_waits_and_is_said_once(core: Core) -> None:
    session, _ = open_session(core, shown(89.9))
    core.hub.sessions.closed(session, core.now)
    await identity(core)
    core.take_cloud_events()
    for _ in range(3):
        refusal = core.hub.certificates.judge_late(claim(shown(89.9), epoch=8), core.now)
        assert refusal is not None and refusal.code == "held"
    assert refusal is not None
    assert [each.type for each in core.take_cloud_events()] == ["identity.held"]
    found = await identity(core)
    assert (found["held"], found["state"]) == (refusal.held, "Held")
    core.annotate("edge-1", approve_identity=refusal.held)
    assert core.hub.certificates.judge_late(claim(shown(89.9), epoch=8), core.now) is None
    core.hub.certificates.renewed_late("edge-1", shown(0, serial="c3"), core.now)
    assert (await identity(core))["held"] == ""


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_deleted_node_is_said_to_be_deleted_until_it_is_made_again(core: Core, is_restarted: bool) -> None:
    """Also by a hub that did not run when it was deleted; the remedies are named."""

    def link() -> tuple[str, str]:
        found = core.api.documents[EDGE_NODES, "", "edge-1"].status["conditions"][0]
        return found["reason"], found["message"]

    session, _ = open_session(core, shown(1))
    core.hub.sessions.closed(session, core.now)
    await identity(core)
    assert link() == ("Away", "")
    if is_restarted:
        later = Core("edge-2", listed=False)
        later.api.documents.update(core.api.documents)
        core = later
        core.annotate("edge-1")
        core.list_all()
        await identity(core)  # it gives nodes time to return
    else:
        core.hub.cluster.drop_node("edge-1", core.now)
    await identity(core)
    assert link() == (
        "NodeDeleted",
        "Node edge-1 was deleted or lost the label node-role.kubernetes.io/edge; its EdgeNode remains until"
        f" {shown(1).expires}. Recreate the Node and then run fairlead node approve edge-1, or run fairlead node"
        " delete edge-1.",
    )
    core.annotate("edge-1")
    assert core.hub.view.no_node("edge-1") == link()[1], "for people who ask the hub"
    assert core.hub.view.no_node("edge-9").startswith("there is no Node edge-9 with label")
    core.node("edge-1", uid="another")
    await identity(core)
    assert link() == ("Away", "")


async def test_a_node_made_again_is_not_let_in_by_the_back_door(core: Core) -> None:
    """A deleted Node suspends its certificates; a late renewal must not make new ones of them unseen."""
    session, _ = open_session(core, shown(89.9))
    core.hub.sessions.closed(session, core.now)
    await identity(core)
    core.hub.cluster.drop_node("edge-1", core.now)
    core.node("edge-1", uid="another")
    refusal = core.hub.certificates.judge_late(claim(shown(89.9)), core.now)
    assert refusal is not None and refusal.code == "held" and "recreated" in refusal.reason
