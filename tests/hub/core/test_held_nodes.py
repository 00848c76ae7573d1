"""A node that is paused is sent nothing, and one that would lose too much loses nothing, whatever else happens."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import ROUTES

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.settings import DeletionGuardSettings
from fairlead_wire import message

WHY = "disk swap on Tuesday"


@pytest.fixture
def core():
    return Core("edge-1", "edge-2", deletion_guard=DeletionGuardSettings(removals_max=2)).rule(CONFIG_MAPS)


def short(headers):
    return sorted((type(header).__name__, header.resource.rsplit("/", 1)[1]) for header in headers)


async def reported(core):
    core.hub.sweep(core.now)
    await core.report()
    return core.api.documents[(EDGE_NODES, "", "edge-1")].status


def condition(status, type):
    [found] = [each for each in status["conditions"] if each["type"] == type]
    return found["status"], found["reason"], found["message"]


# ---- hold ----------------------------------------------------------------------------------------


def test_a_held_node_is_sent_nothing_and_afterwards_everything(core):
    """No change, no delete, no EdgeRoutes; then the newest of each, at once.  Its neighbour does not notice."""
    core.put("a")
    gone = core.put("b")
    edge, neighbour = core.connect("edge-1"), core.connect("edge-2")
    edge.ack(*edge.sent())
    neighbour.ack(*neighbour.sent())
    core.annotate("edge-1", paused=WHY)
    core.put("a", version="2", data={"v": "2"})
    core.put("a", version="3", data={"v": "3"})
    core.put("c")
    core.remove(gone)
    core.put("r", ROUTES, namespace="", spec={"routes": {}})
    assert edge.sent() == [] and not edge.session.has_frames
    assert short(neighbour.sent()) == [("Delete", "b"), ("Update", "a"), ("Update", "c"), ("Update", "r")]
    core.settle()
    core.annotate("edge-1")
    assert edge.ref in [output.session for output in core.take_ready().sessions], "at once, not at the next change"
    sent = edge.sent()
    assert short(sent) == [("Delete", "b"), ("Update", "a"), ("Update", "c"), ("Update", "r")]
    assert [header.resource_version for header in sent if header.resource.endswith("/a")] == ["3"]


def test_a_hub_that_starts_sends_nothing_before_it_knows_who_is_held():
    """The list of EdgeNodes comes last: until then the node waits, and says for what."""
    core = Core("edge-1", listed=False)
    for name in ("nodes", "syncrules", "edgeroutes"):
        core.hub.cluster.input_synced(name)
    core.rule(CONFIG_MAPS)
    core.put("a")
    edge = core.connect()
    for kind in ("configmaps",):
        core.hub.cluster.kind_synced(core.hub.desired_state.kinds[kind].group_kind)
    core.settle()
    assert edge.sent() == [] and core.hub.desired_state.not_synced("edge-1") == "edgenodes are not listed yet"
    core.annotate("edge-1", paused=WHY)
    core.hub.cluster.input_synced(EDGE_NODES)
    core.settle()
    assert edge.sent() == [] and edge.session.keys.live, "compared, and nothing sent"
    core.annotate("edge-1")
    assert short(edge.sent()) == [("Update", "a")]


def test_what_was_in_flight_is_believed_and_not_sent_again_while_held(core):
    """Its ack counts; without one nothing is repeated, however long the hold, and then it is."""
    core.put("a")
    core.put("b")
    edge = core.connect()
    first, second = edge.sent()
    core.annotate("edge-1", paused=WHY)
    edge.ack(first)
    assert len(edge.session.keys.held) == 1
    for core.now in (6.0, 12.0, 600.0):
        edge.say(message.Keepalive())
        core.settle()
        assert edge.sent() == [] and edge.session.keys.unsynced.parked() == {}
        assert edge.session.next_tick() > core.now, "nothing is due that may not be done"
    core.annotate("edge-1")
    assert [header.resource for header in edge.sent()] == [second.resource]


@pytest.mark.parametrize("resumed", [5.2, 5.9], ids=["before the retry is due", "after it was due"])
def test_a_retry_is_sent_in_the_first_turn_in_which_it_is_due_after_a_pause(core, resumed):
    """A timer that fires during a pause ignores retries; without a new one they would wait for another turn."""
    core.put("a")
    core.put("b")
    edge = core.connect()
    first, _ = edge.sent()
    core.now = 4.5
    edge.nack(first, permanent=False)  # due at 5.5
    core.annotate("edge-1", paused=WHY)
    core.now = 5.1
    core.settle()  # the other one's ack timeout
    core.now = resumed
    core.annotate("edge-1")
    core.now = 5.9
    assert edge.ref in [output.session for output in core.take_ready().sessions]
    assert edge.session.next_tick() > core.now


def test_a_parked_object_stays_parked_while_its_node_is_held(core):
    """Its time comes when the hold is over."""
    core.put("a")
    edge = core.connect()
    edge.nack(edge.sent()[0])
    core.annotate("edge-1", paused=WHY)
    core.now = 4000.0
    edge.say(message.Keepalive())
    core.settle()
    assert edge.sent() == [] and len(edge.session.keys.unsynced.parked()) == 1
    core.annotate("edge-1")
    core.settle()
    assert short(edge.sent()) == [("Update", "a")]


async def test_records_and_edge_node_say_held_and_are_written_once(core):
    """State Pending, reason Paused; the same while it lasts, over a restart of the hub too."""
    one = core.put("a")
    edge = core.served()
    core.annotate("edge-1", paused=WHY)
    core.put("a", version="2", data={"v": "2"})
    status = await reported(core)
    assert (status["paused"], condition(status, "Paused")) == (WHY, ("True", "Annotation", WHY))
    core.now = 31.0
    status = await reported(core)
    assert condition(status, "Synced")[:2] == ("False", "Paused")
    record = core.status(one)
    assert (record["state"], record["reason"], record["objectResourceVersion"]) == ("Pending", "Paused", "1")
    assert record["lastAckTime"] and condition(record, "Stalled") == ("False", "NotParked", "")
    writes = core.api.writes
    for core.now in (40.0, 50.0, 60.0):
        core.put("a", version=str(core.now), data={"v": str(core.now)})
        core.hub.reconcile(core.now)
        await reported(core)
    assert core.api.writes == writes
    core.annotate("edge-1")
    edge.ack(*edge.sent())
    status = await reported(core)
    assert (status["paused"], condition(status, "Paused")[0], condition(status, "Synced")[0]) == ("", "False", "True")
    assert core.status(one)["state"] == "Synced"
    reasons = [each.reason for each in core.take_kube_events()]
    assert "Paused" in reasons and "Resumed" in reasons


async def test_a_record_that_lagged_before_says_held_from_then_on(core):
    """And lagging again afterwards, if it still does."""
    one = core.put("a")
    core.opened()
    core.now = 31.0
    await reported(core)
    assert core.status(one)["reason"] == "Lagging"
    core.annotate("edge-1", paused=WHY)
    await reported(core)
    assert core.status(one)["reason"] == "Paused"
    core.annotate("edge-1")
    await reported(core)
    assert core.status(one)["reason"] == "Lagging"


def test_explain_and_status_say_held_and_why(core):
    """What is held by the node already is simply held; the rest is held back."""
    core.put("a")
    edge = core.served()
    core.annotate("edge-1", paused=WHY)
    core.put("b")
    core.now = 2.0
    found = core.hub.view.explained("edge-1", "configmap", "shop", "b", core.now)
    assert found["code"] == "paused" and f"paused, waiting for 2.0 s: {WHY}" in found["answer"]
    assert core.hub.view.explained("edge-1", "configmap", "shop", "a", core.now)["code"] == "held"
    shown = core.hub.view.node("edge-1", core.now)
    assert shown is not None and shown["paused"] == WHY
    edge.leave()
    assert WHY in core.hub.view.explained("edge-1", "configmap", "shop", "b", core.now)["answer"]


def test_a_hold_ends_with_its_edge_node(core):
    """It was deleted by hand."""
    core.put("a")
    core.annotate("edge-1", paused=WHY)
    edge = core.connect()
    assert edge.sent() == []
    core.hub.documents.edge_node_vanished("edge-1", core.now)
    assert short(edge.sent()) == [("Update", "a")]


async def test_a_change_that_is_taken_back_while_held_leaves_nothing_to_tell(core):
    """The record says Synced again, although nothing was sent."""
    one = core.put("a")
    edge = core.served()
    core.annotate("edge-1", paused=WHY)
    core.put("a", version="2", data={"v": "2"})
    core.now = 31.0
    await reported(core)
    assert core.status(one)["reason"] == "Paused"
    core.put("a", version="3")
    core.settle()
    await reported(core)
    record = core.status(one)
    assert (record["state"], record["objectResourceVersion"]) == ("Synced", record["wantedResourceVersion"])
    assert edge.sent() == []


# ---- deletion guard ---------------------------------------------------------------------------------------


def filled(core, count=5):
    ones = [core.put(f"c{number}") for number in range(count)]
    edge = core.served()
    return edge, ones


async def test_a_rule_deleted_by_mistake_removes_nothing_and_changes_go_on(core):
    """The EdgeNode says how many, under which id; explain says guarded; the rule back, all is as before."""
    edge, ones = filled(core)
    core.hub.cluster.drop_rule("r")
    core.settle()
    assert edge.sent() == []
    status = await reported(core)
    assert (status["deletionGuard"]["count"], condition(status, "DeletionGuard")[:2]) == (
        5,
        ("True", "TooManyDeletions"),
    )
    assert condition(status, "Synced")[:2] == ("False", "DeletionGuard")
    assert [each.reason for each in core.take_kube_events() if each.type == "Warning"] == ["DeletionGuard"]
    record = core.status(ones[0])
    assert (record["state"], record["reason"], record["wantedResourceVersion"]) == ("Deleting", "DeletionGuard", "")
    core.put("routes", ROUTES, namespace="", spec={"routes": {}})
    assert short(edge.sent()) == [("Update", "routes")], "what is wanted still goes"
    core.rule(CONFIG_MAPS, name="r")
    edge.sent()
    status = await reported(core)
    assert (status["deletionGuard"], condition(status, "DeletionGuard")[0]) == (None, "False")
    assert {core.status(one)["state"] for one in ones} == {"Synced"}
    assert len(edge.session.keys.held) == len(ones)


async def test_a_wiped_namespace_is_stopped_after_the_first_few(core):
    """Deletes come one by one; the third within a minute stops."""
    edge, ones = filled(core)
    for one in ones:
        core.remove(one)
        edge.ack(*edge.sent())
    assert len(edge.session.keys.held) == 3
    found = core.hub.view.explained("edge-1", "configmap", "shop", "c4", core.now)
    assert found["code"] == "deletion_guard" and "kubectl annotate enode edge-1" in found["answer"]
    shown = core.hub.view.node("edge-1", core.now)
    assert shown is not None and shown["deletionGuard"]["count"] == 3


async def test_the_id_lets_them_go_and_an_old_id_does_not(core):
    """After a wrong id nothing moves; after the right one all go and the guard is off."""
    edge, _ = filled(core)
    core.hub.cluster.drop_rule("r")
    core.settle()
    edge.sent()
    first = (await reported(core))["deletionGuard"]["id"]
    core.annotate("edge-1", approve_deletions="00000000")
    assert edge.sent() == []
    assert "has '00000000', which approves nothing" in condition(await reported(core), "DeletionGuard")[2]
    core.annotate("edge-1", approve_deletions=first)
    deletes = edge.sent()
    assert len(deletes) == 5
    edge.ack(*deletes)
    assert (await reported(core))["deletionGuard"] is None
    core.rule(CONFIG_MAPS, name="r")
    edge.ack(*edge.sent())
    core.now += 600
    core.hub.cluster.drop_rule("r")
    core.settle()
    core.annotate("edge-1", approve_deletions=first)
    assert edge.sent() == []
    assert (await reported(core))["deletionGuard"]["id"] != first


async def test_a_guarded_node_stays_guarded_over_a_restart_of_the_hub(core):
    """The new hub reads id and count before it sends; the id that was shown still releases."""
    edge, ones = filled(core)
    for one in ones:
        core.remove(one)
        edge.ack(*edge.sent())
    id = (await reported(core))["deletionGuard"]["id"]
    after = Core("edge-1", deletion_guard=DeletionGuardSettings(removals_max=2), listed=False).rule(CONFIG_MAPS)
    after.api = core.api
    after.annotate("edge-1")
    after.list_all()
    returned = after.connect("edge-1", *ones[2:])
    assert returned.sent() == [], "two of three would be allowed to a hub that has forgotten"
    after.annotate("edge-1", approve_deletions=id)
    assert len(returned.sent()) == 3


def test_a_hold_is_stronger_than_a_release(core):
    """Released removals go when the hold is over."""
    edge, _ = filled(core)
    core.hub.cluster.drop_rule("r")
    core.settle()
    edge.sent()
    id = core.hub.node_controls.guard("edge-1").tripped.id
    core.annotate("edge-1", paused=WHY, approve_deletions=id)
    assert edge.sent() == []
    core.annotate("edge-1", approve_deletions=id)
    assert len(edge.sent()) == 5
