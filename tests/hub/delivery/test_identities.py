"""A Node deleted and made again: whose certificate is taken, and whose waits for approval."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.delivery.identities import Identities, NodeCertificate
from fairlead_hub.identity.renewal import RenewalPlan
from fairlead_hub.session_ref import SessionRef
from fairlead_hub.status import edge_node, status_cache
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.objects.api_group import APPROVE_IDENTITY

PLAN = RenewalPlan(WallClock(lambda: 0.0), lambda: 0.5)
OLD = NodeCertificate(issued="2026-01-01T00:00:00Z", expires="2027-01-01T00:00:00Z")
NEW = NodeCertificate(issued="2026-06-01T00:00:00Z", expires="2027-06-01T00:00:00Z")


def met(shown=OLD, uid="first", **options):
    identities = Identities(PLAN, **options)
    assert identities.judge("n", uid, shown) == ""
    identities.opened("n", shown)
    return identities


def test_the_first_certificate_is_bound_to_its_node():
    """Also one that is older than the Node: charts make them first."""
    assert met().status("n") == {
        "nodeUID": "first", "issued": OLD.issued, "expires": OLD.expires, "held": "", "renewal": "", "state": "Valid",
    }  # fmt: skip


def test_a_node_made_again_does_not_revive_the_old_certificate():
    """It says how to go on."""
    identities = met()
    reason = identities.judge("n", "second", OLD)
    assert f"{APPROVE_IDENTITY}=second" in reason and "deleted and recreated" in reason
    assert identities.held == {"n": "second"}
    assert identities.status("n")["nodeUID"] == "first"


def test_nor_an_older_one():
    """A clone of the disk from before a renewal."""
    identities = met(NEW)
    assert identities.judge("n", "second", OLD)


def test_a_newer_certificate_was_issued_on_purpose():
    """It is bound to the new life; the old one is held from then on, too, if the Node changes again."""
    identities = met()
    assert identities.judge("n", "second", NEW) == ""
    assert identities.status("n")["issued"] == NEW.issued
    assert identities.judge("n", "third", OLD) and identities.judge("n", "third", NEW)


def test_the_old_one_does_not_come_back_when_a_newer_one_was_taken():
    """Else the first session of the new device would let the old one in again; also after a hub started anew."""
    identities, other = met(), Identities(PLAN)
    assert identities.judge("n", "second", NEW) == ""
    assert identities.status("n")["formerIssued"] == OLD.issued
    other.observed("n", {"identity": identities.status("n")}, {})
    for each in (identities, other):
        assert "deleted and recreated" in each.judge("n", "second", OLD)
        assert each.judge("n", "second", NEW) == ""
        between = NodeCertificate(issued="2026-02-01T00:00:00Z", expires=NEW.expires)
        assert each.judge("n", "second", between) == ""
        each.observed("n", {}, {APPROVE_IDENTITY: "second"})
        assert each.judge("n", "second", OLD) == ""


@pytest.mark.parametrize(("approved", "taken"), [("second", True), ("first", False), ("", False), ("yes", False)])
def test_approval_names_the_node_it_is_for(approved, taken):
    """An old one approves nothing."""
    identities = met()
    identities.observed("n", {}, {APPROVE_IDENTITY: approved})
    assert (identities.judge("n", "second", identities.of_session("n")) == "") is taken
    assert bool(identities.held) is not taken


def test_an_approval_that_was_taken_away_counts_no_more():
    identities = met()
    identities.observed("n", {}, {APPROVE_IDENTITY: "second"})
    identities.observed("n", {}, {})
    assert identities.judge("n", "second", identities.of_session("n"))


def test_what_is_bound_survives_a_restart():
    """It stands in EdgeNode."""
    again = Identities(PLAN)
    again.observed("n", {"identity": met().status("n")}, {})
    assert again.judge("n", "second", OLD) and again.judge("n", "first", OLD) == ""


@pytest.mark.parametrize("identity", [None, 1, {}, {"nodeUID": 1}, {"nodeUID": "a", "issued": "", "expires": "x"}])
def test_what_was_made_of_the_status_by_hand_binds_nothing(identity):
    identities = Identities(PLAN)
    identities.observed("n", {"identity": identity}, {})
    assert not identities.is_bound("n")


def test_without_certificates_nothing_is_bound():
    """``insecure`` takes nodes at their word."""
    identities = met()
    identities.opened("n", None)
    assert identities.judge("n", "second", identities.of_session("n")) == ""
    assert not met(None).is_bound("n")


def test_where_recreated_nodes_are_accepted_no_node_waits():
    identities = met(accept_recreated=True)
    assert identities.judge("n", "second", OLD) == "" and identities.status("n")["nodeUID"] == "second"


def test_what_has_expired_need_not_be_remembered():
    identities = met()
    assert identities.expired("2026-12-31T00:00:00Z") == []
    assert identities.expired("2027-01-02T00:00:00Z") == ["n"]
    identities.forget("n")
    assert not identities.is_bound("n")


# ---- in the hub ----------------------------------------------------------------------------------


def session(core, shown=OLD, node="edge-1"):
    return core.hub.sessions.open(node, core.hello(node), core.now, shown)


async def written(core):
    """EdgeNode says what is so, half a minute later."""
    for _ in range(3):
        core.hub.report(core.now)
        core.now += 15
    await core.flush()


def document(core, node="edge-1"):
    return core.api.documents.get(("edgenodes", "", node))


async def recreated(core):
    """The Node is deleted, noticed, and made again."""
    await written(core)
    core.hub.cluster.drop_node("edge-1", core.now)
    await core.flush()
    core.node("edge-1", uid="second")
    core.settle()


async def test_a_deleted_node_leaves_its_edge_node_behind():
    """Away, with what is bound; without certificates it goes."""
    core = Core("edge-1", "edge-2")
    session(core)
    session(core, None, "edge-2")
    await written(core)
    for node in ("edge-1", "edge-2"):
        core.hub.cluster.drop_node(node, core.now)
    await core.flush()
    assert document(core, "edge-2") is None
    status = document(core).status
    assert status["connected"] is False and status["identity"]["nodeUID"] == "uid-edge-1"
    assert "ownerReferences" not in edge_node.head("edge-1", "")["metadata"]


async def test_made_again_the_old_certificate_is_refused_by_reason():
    """EdgeNode, an Event and the refusal say so; approved it is served."""
    core = Core("edge-1")
    session(core)
    await recreated(core)
    refusal = session(core)
    assert isinstance(refusal, message.Refuse) and refusal.code == "identity" and APPROVE_IDENTITY in refusal.reason
    await written(core)
    identity = document(core).status["identity"]
    assert (identity["held"], identity["state"]) == ("second", "Held")
    assert "IdentityHeld" in [each.reason for each in core.take_kube_events()]
    core.rule(CONFIG_MAPS)
    core.put("a")
    why = core.hub.view.explained("edge-1", "configmap", "shop", "a", core.now)
    assert (why["code"], APPROVE_IDENTITY in why["answer"]) == ("identity_held", True)
    core.annotate("edge-1", approve_identity="second")
    assert isinstance(session(core), SessionRef)
    await written(core)
    assert document(core).status["identity"] == {
        "nodeUID": "second", "issued": OLD.issued, "expires": OLD.expires, "held": "", "renewal": "", "state": "Valid",
    }  # fmt: skip


async def test_who_is_held_throws_no_other_out():
    """The node with its new certificate is connected; the old one knocks."""
    core = Core("edge-1")
    session(core)
    await recreated(core)
    served = session(core, NEW)
    assert isinstance(served, SessionRef)
    core.hub.cluster.drop_node("edge-1", core.now)
    core.node("edge-1", uid="third")
    newest = NodeCertificate(issued="2026-09-01T00:00:00Z", expires="2027-09-01T00:00:00Z")
    served = session(core, newest)
    for former in (OLD, NEW):
        assert isinstance(session(core, former), message.Refuse)
    assert isinstance(served, SessionRef) and core.hub.sessions.is_open(served)


async def test_no_certificate_is_judged_before_the_lists_are_in():
    """A hub that has just started does not know which are held or revoked: it says so, and when to come again."""
    core = Core("edge-1")
    session(core)
    await written(core)
    again = Core(listed=False)
    for name, missing in (("syncrules", "edgenodes and nodes"), ("nodes", "listed edgenodes yet")):
        again.hub.cluster.input_synced(name)
        refusal = session(again)
        assert isinstance(refusal, message.Refuse) and refusal.code == "starting" and missing in refusal.reason
        assert refusal.retry_after is not None and refusal.retry_after <= 1
    again.node("edge-1", uid="second")
    again.hub.documents.edge_node_observed("edge-1", document(core), {}, again.now)
    again.list_all()
    assert session(again).code == "identity"
    assert not again.hub.open_sessions.by_node


async def test_what_is_over_is_forgotten():
    """The certificate has ended, or the EdgeNode of a Node that is gone was deleted by hand."""
    for forget in ("time", "hand"):
        core = Core("edge-1")
        session(core, NodeCertificate(issued=OLD.issued, expires="2027-01-16T00:00:00Z"))
        await written(core)
        core.hub.cluster.drop_node("edge-1", core.now)
        await core.flush()
        if forget == "time":
            core.now += 86_400.0
            core.hub.reconcile(core.now)
        else:
            del core.api.documents["edgenodes", "", "edge-1"]
            core.hub.documents.edge_node_vanished("edge-1", core.now, "")
        await core.flush()
        assert document(core) is None and not core.hub.identities.is_bound("edge-1")


# ---- revoked -------------------------------------------------------------------------------------


def revoke(core, before, node="edge-1", reason="stolen"):
    """A person writes it into the node's EdgeNode, and the watch brings that."""
    there = document(core, node)
    status, version = ({}, "") if there is None else (there.status, there.version)
    spec = {"revoked": {"before": before, "reason": reason}} if before else {}
    seen = status_cache.Observed(version=version, generation=2, status=status, head={"spec": spec})
    core.hub.documents.edge_node_observed(node, seen, {}, core.now)
    core.settle()


async def test_a_revoked_certificate_is_cut_off_at_once_and_stays_out():
    """Its session ends by reason, and the next one; what was issued later is served."""
    core = Core("edge-1")
    opened = session(core)
    core.frames(opened)
    await written(core)
    core.take_kube_events()
    core.take_cloud_events()
    revoke(core, "2026-03-01T00:00:00Z")
    *_, (closing, _) = core.frames(opened)
    assert isinstance(closing, message.Refuse) and (closing.code, closing.retry_after) == ("revoked", 600)
    assert "stolen" in closing.reason and "2026-03-01" in closing.reason
    assert session(core).code == "revoked" and not core.hub.open_sessions.by_node
    assert core.hub.counts.refused["revoked"] == 2
    assert [each.reason for each in core.take_kube_events()].count("IdentityRevoked") == 1
    assert [each.type for each in core.take_cloud_events()].count("identity.revoked") == 1
    await written(core)
    assert document(core).status["identity"]["state"] == "Revoked"
    assert isinstance(session(core, NEW), SessionRef)
    await written(core)
    assert document(core).status["identity"]["state"] == "Valid"


async def test_what_was_revoked_holds_in_the_next_hub():
    """From the EdgeNode; it is no news to it."""
    core = Core("edge-1")
    session(core)
    revoke(core, "2026-03-01T00:00:00Z")
    await written(core)
    again = Core("edge-1", listed=False)
    head = {"spec": {"revoked": {"before": "2026-03-01T00:00:00Z"}}}
    seen = status_cache.Observed(version="9", generation=2, status=document(core).status, head=head)
    again.hub.documents.edge_node_observed("edge-1", seen, {}, again.now)
    again.list_all()
    assert session(again).code == "revoked"
    assert "IdentityRevoked" not in [each.reason for each in again.take_kube_events()]


async def test_what_was_revoked_while_no_hub_ran_is_news_to_the_next():
    core = Core("edge-1", listed=False)
    revoke(core, "2026-03-01T00:00:00Z")
    core.list_all()
    assert "IdentityRevoked" in [each.reason for each in core.take_kube_events()]
    await written(core)


async def test_an_edge_node_that_was_deleted_comes_back_with_what_was_revoked():
    """Also when its Node is gone; a person lifts it by its spec, and then it may be deleted."""
    core = Core("edge-1")
    session(core)
    revoke(core, "2026-03-01T00:00:00Z")
    await written(core)
    core.hub.cluster.drop_node("edge-1", core.now)
    await core.flush()
    core.take_kube_events()
    del core.api.documents["edgenodes", "", "edge-1"]
    core.hub.documents.edge_node_vanished("edge-1", core.now, "")
    await written(core)
    made = core.api.documents["edgenodes", "", "edge-1"]
    assert made.status["identity"]["state"] == "Revoked"
    assert made.head["spec"]["revoked"] == {"before": "2026-03-01T00:00:00Z", "reason": "stolen"}
    assert "RevocationKept" in [each.reason for each in core.take_kube_events()]
    core.now += 10 * 365 * 86_400
    core.hub.reconcile(core.now)
    await core.flush()
    assert document(core) is not None, "time alone forgets nothing that a person revoked"
    revoke(core, "")
    del core.api.documents["edgenodes", "", "edge-1"]
    core.hub.documents.edge_node_vanished("edge-1", core.now, "")
    await written(core)
    assert document(core) is None


async def test_a_node_that_was_never_seen_can_be_revoked():
    """Its EdgeNode is the person's own; the hub says in it what it made of that, and owns nothing of it."""
    core = Core("edge-1")
    revoke(core, "2026-03-01T00:00:00Z")
    await written(core)
    assert document(core).status["identity"] == {
        "nodeUID": "", "issued": "", "expires": "", "held": "", "renewal": "", "state": "Revoked",
    }  # fmt: skip
    assert session(core).code == "revoked"


def test_without_certificates_nothing_is_revoked():
    """``insecure`` takes nodes at their word, on loopback alone."""
    core = Core("edge-1")
    revoke(core, "2026-03-01T00:00:00Z")
    assert isinstance(session(core, None), SessionRef)


async def test_lifting_it_is_an_event_too():
    core = Core("edge-1")
    revoke(core, "2026-03-01T00:00:00Z")
    core.take_kube_events()
    revoke(core, "")
    assert [each.reason for each in core.take_kube_events()] == ["RevocationLifted"]
    assert isinstance(session(core), SessionRef)


# ---- authorities ---------------------------------------------------------------------------------


def by(issuer, issued=OLD.issued):
    return NodeCertificate(issued=issued, expires=OLD.expires, issuer=issuer)


async def test_nodes_are_counted_by_the_authority_of_their_certificates():
    """Also those that are away, and after a restart: an authority that none uses any more may go."""
    core = Core("edge-1", "edge-2", "edge-3")
    for node, issuer in (("edge-1", "old"), ("edge-2", "old"), ("edge-3", "new")):
        session(core, by(issuer), node)
    assert core.hub.identities.issuers(core.hub.open_sessions.by_node) == {("old", True): 2, ("new", True): 1}
    core.hub.sessions.closed(core.hub.open_sessions.by_node["edge-1"].ref, core.now)
    session(core, by("new", NEW.issued), "edge-2")
    assert core.hub.identities.issuers(core.hub.open_sessions.by_node) == {("old", False): 1, ("new", True): 2}
    await written(core)
    again = Core("edge-1", "edge-2", "edge-3", listed=False)
    for node in ("edge-1", "edge-2", "edge-3"):
        again.hub.documents.edge_node_observed(node, document(core, node), {}, again.now)
    assert again.hub.identities.issuers({}) == {("old", False): 1, ("new", False): 2}


def test_many_authorities_are_few_labels():
    """A metric's labels must not grow without end."""
    identities = Identities(PLAN)
    for number in range(100):
        assert identities.judge(f"n-{number}", "u", by(f"authority {number}")) == ""
    found = identities.issuers({})
    assert len(found) <= 17 and found.total() == 100


async def test_a_held_certificate_does_not_count_for_a_fencing_number():
    """It hears that it is held, not that its number is higher than ours."""
    core = Core("edge-1")
    session(core)
    await recreated(core)
    refusal = core.hub.sessions.open("edge-1", core.hello("edge-1", fence=90), core.now, OLD)
    assert isinstance(refusal, message.Refuse) and (refusal.code, refusal.fence) == ("identity", None)
