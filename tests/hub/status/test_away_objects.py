"""Nodes that are away and behind: what their ObjectSyncs say, when, and at what price."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.settings import RecordSettings
from fairlead_hub.status import away_objects
from fairlead_hub.status.node_status import RETURN_SECONDS
from fairlead_hub.status.object_sync_status import COLLECTIONS
from fairlead_wire.objects.api_group import PAUSED


async def beat(core, seconds=1.0):
    """A heartbeat, and all that it wants written."""
    core.now += seconds
    core.hub.heartbeat(core.now)
    core.settle()
    await core.flush()


async def away(core, node="edge-1", *held):
    """It took everything, and is away for good."""
    edge = core.served(node, *held)
    await beat(core)
    edge.leave()
    await beat(core, away_objects.AWAY_SECONDS)


def said(core, one, node="edge-1"):
    status = core.status(one, node)
    return (
        None if status is None else (status["state"], status["objectResourceVersion"], status["wantedResourceVersion"])
    )


async def test_an_away_node_is_behind_as_soon_as_something_newer_is_wanted(core):
    """With both versions, the reason and since when; its neighbour is Synced as before."""
    old = core.put("a", version="1", data={"v": "1"})
    await away(core)
    neighbour = core.served("edge-2")
    await beat(core)
    assert said(core, old) == ("Synced", "1", "1")
    before = core.now
    one = core.put("a", version="7", data={"v": "2"})
    neighbour.ack(*neighbour.sent())
    await beat(core)
    assert said(core, one) == ("Behind", "1", "7") and said(core, one, "edge-2") == ("Synced", "7", "7")
    [synced, stalled] = core.status(one)["conditions"]
    assert (synced["status"], synced["reason"], synced["message"]) == ("False", "NodeAway", "the node is away")
    assert synced["lastTransitionTime"] == core.hub.clock.text(before) and stalled["status"] == "False"
    answer = core.hub.view.explained("edge-1", "configmap", "shop", "a", core.now)
    assert answer["code"] == "away" and "Behind: it holds version 1, version 7 is wanted" in answer["answer"]
    core.served("edge-1", old)
    await beat(core)
    assert said(core, one) == ("Synced", "7", "7")


async def test_a_node_at_rest_is_not_written(core):
    """Nor one that is away for a moment, nor a status-only change, nor the slow pass."""
    core.put("a", version="1", data={"v": "1"})
    edge = core.served()
    await beat(core)
    core.put("b")
    edge.leave()
    await beat(core, away_objects.AWAY_SECONDS / 2)
    edge = core.served("edge-1", *edge.held.values())
    await beat(core)
    edge.leave()
    await beat(core, away_objects.AWAY_SECONDS)
    writes = core.api.writes
    core.put("a", version="2", data={"v": "1"})
    for _ in range(5):
        await beat(core)
    core.hub.reconcile(core.now)
    await beat(core)
    assert core.api.writes == writes + 1, "EdgeNode says that it is away"


async def test_what_is_wanted_as_before_again_is_synced(core):
    """A change that was taken back, without the node."""
    core.put("a", version="1", data={"v": "1"})
    await away(core)
    one = core.put("a", version="2", data={"v": "2"})
    await beat(core)
    assert said(core, one) == ("Behind", "1", "2")
    one = core.put("a", version="3", data={"v": "1"})
    await beat(core, away_objects.AGAIN_SECONDS)
    assert said(core, one) == ("Synced", "3", "3")


async def test_new_and_deleted_objects_of_an_away_node(core):
    """New: Behind, with nothing held, and gone with its object.  Deleted: Deleting, until the node has removed it."""
    gone = core.put("gone")
    await away(core)
    new = core.put("new", version="5")
    core.remove(gone)
    await beat(core)
    assert said(core, new) == ("Behind", "", "5") and said(core, gone) == ("Deleting", "1", "")
    assert core.status(gone)["reason"] == "NodeAway"
    core.remove(new)
    await beat(core, away_objects.AGAIN_SECONDS)
    assert said(core, new) is None and said(core, gone) == ("Deleting", "1", "")
    core.served("edge-1", gone)
    await beat(core)
    assert said(core, gone) is None


async def test_of_a_node_that_never_came_nothing_is_written(core):
    """Nodes are made long before they are installed."""
    core.put("a")
    for _ in range(40):
        await beat(core)
    assert core.names() == []


async def test_rules_and_labels_count_like_changes(core):
    """What a rule brings is Behind, what it takes away is Deleting."""
    one = core.put("a")
    await away(core)
    core.hub.cluster.drop_rule("r")
    core.settle()
    await beat(core)
    assert said(core, one) == ("Deleting", "1", "")
    core.rule(CONFIG_MAPS)
    await beat(core)
    assert said(core, one) == ("Synced", "1", "1")


async def test_what_was_on_its_way_when_the_node_left_is_behind(core):
    """Pending says that it is on its way; it is not any more."""
    edge = core.served()
    one = core.put("a", version="4")
    edge.sent()
    await beat(core, 31)
    assert said(core, one) == ("Pending", "", "4")
    edge.leave()
    await beat(core)
    assert said(core, one) == ("Pending", "", "4")
    await beat(core, away_objects.AWAY_SECONDS)
    assert said(core, one) == ("Behind", "", "4")


async def test_parked_says_more_until_something_newer_is_wanted(core):
    """Why the node did not take this very content."""
    edge = core.served()
    one = core.put("a", version="4", data={"v": "1"})
    edge.nack(*edge.sent(), code="too_large")
    await beat(core)
    edge.leave()
    await beat(core, away_objects.AWAY_SECONDS)
    assert said(core, one) == ("Parked", "", "4") and core.status(one)["reason"] == "too_large"
    one = core.put("a", version="5", data={"v": "2"})
    await beat(core)
    assert said(core, one) == ("Behind", "", "5") and core.status(one)["retries"] == 0


async def test_a_paused_object_says_so_at_an_away_node(core):
    """Behind, reason Paused."""
    core.put("a", data={"v": "1"})
    await away(core)
    one = core.put("a", version="2", data={"v": "2"}, metadata={"annotations": {PAUSED: "by hand"}})
    await beat(core)
    assert said(core, one) == ("Behind", "1", "2") and core.status(one)["reason"] == "Paused"


async def restarted(core):
    """Another hub over the same documents: its watches have brought everything."""
    hub = Core("edge-1", "edge-2", listed=False)
    hub.api = core.api
    hub._writer._target = core.api
    hub.now = 100.0
    hub.rule(CONFIG_MAPS)
    for name, there in core.api.documents.items():
        if name[0] == EDGE_NODES:
            hub.hub.documents.edge_node_observed(name[2], there, {}, hub.now)
        else:
            hub.hub.documents.observed(name, name[2].split(".")[0], there)
    return hub


async def test_a_hub_that_starts_reads_what_is_written_and_compares(core):
    """An object changed while no hub ran: at once for a node that was away before."""
    core.put("a", version="1", data={"v": "1"})
    await away(core)
    again = await restarted(core)
    one = again.put("a", version="9", data={"v": "9"})
    again.list_all()
    await beat(again)
    assert said(again, one) == ("Behind", "1", "9")


async def test_a_node_that_left_before_its_edge_node_was_written_is_no_stranger(core):
    """Its ObjectSyncs say that it was here: what is new while no hub ran is Behind, too."""
    core.put("a")
    await away(core)
    assert not any(name[0] == EDGE_NODES for name in core.api.documents)
    again = await restarted(core)
    again.put("a")
    one = again.put("new", version="9")
    again.list_all()
    await beat(again)
    assert said(again, one) == ("Behind", "", "9")


async def test_a_hub_that_starts_waits_for_nodes_that_are_about_to_come_back(core):
    """Those whose EdgeNode says connected: for as long as it waits before it calls them away."""
    core.put("a", version="1", data={"v": "1"})
    core.served()
    await beat(core, 10)
    await beat(core, 10)
    again = await restarted(core)
    one = again.put("a", version="9", data={"v": "9"})
    again.list_all()
    await beat(again)
    assert said(again, one) == ("Synced", "1", "1")
    await beat(again, RETURN_SECONDS)
    await beat(again)
    assert said(again, one) == ("Behind", "1", "9")


@pytest.mark.slow
async def test_one_object_that_changes_all_the_time_at_many_away_nodes_is_written_at_a_bounded_rate():
    """200 nodes, a change each second for ten minutes: never above the limit, each once, again in slow passes."""
    nodes = [f"edge-{number}" for number in range(200)]
    core = Core(*nodes, record=RecordSettings(away_writes_per_second=10)).rule(CONFIG_MAPS)
    old = core.put("a", version="1", data={"v": "1"})
    edges = [core.served(node) for node in nodes]
    await beat(core)
    for edge in edges:
        edge.leave()
    for _ in range(3):
        await beat(core, 10)  # EdgeNodes are written, too
    writes = []
    for second in range(600):
        one = core.put("a", version=str(second + 2), data={"v": str(second + 2)})
        before = core.api.writes
        await beat(core)
        writes.append(core.api.writes - before)
        if second == 25:
            behind = sum((said(core, one, node) or "")[0] == "Behind" for node in nodes)
    assert behind == 200, "each within the time that the limit allows"
    assert max(writes) <= 10
    assert sum(writes) <= 200 * 3, "one for its state, one in each slow pass"
    assert sum(writes[30:250]) == 0, "what says Behind already is not written for each newer version"
    assert {(said(core, old, node) or "")[0] for node in nodes} == {"Behind"}


async def test_without_a_limit_nothing_is_written_for_away_nodes():
    """Zero switches it off."""
    core = Core("edge-1", record=RecordSettings(away_writes_per_second=0)).rule(CONFIG_MAPS)
    core.put("a", version="1", data={"v": "1"})
    await away(core)
    one = core.put("a", version="2", data={"v": "2"})
    await beat(core)
    core.hub.reconcile(core.now)
    await beat(core)
    assert said(core, one) == ("Synced", "1", "1") and core.hub.sync_controller.away.waiting == 0


async def test_many_changes_at_once_compare_each_away_node_once(core):
    """More objects than are followed one by one: nothing is missed."""
    count = away_objects.KEYS_MAX * 2
    for number in range(count):
        core.put(f"a{number}", data={"v": "1"})
    await away(core)
    changed = [core.put(f"a{number}", version="2", data={"v": "2"}) for number in range(count)]
    assert core.hub.sync_controller.away.waiting <= away_objects.KEYS_MAX + 2
    for _ in range(5):
        await beat(core)
    assert {said(core, one) for one in changed} == {("Behind", "1", "2")}
    assert len(core.names(COLLECTIONS[0])) == count


async def test_a_connected_node_is_not_left_behind_by_a_write_that_waited(core):
    """Behind is wanted and not written yet; the change is taken back, and the node comes."""
    old = core.put("a", version="1", data={"v": "1"})
    await away(core)
    core.put("a", version="2", data={"v": "2"})
    core.now += 1
    core.hub.heartbeat(core.now)
    core.settle()
    one = core.put("a", version="3", data={"v": "1"})
    edge = core.connect("edge-1", old)
    assert edge.sent() == []
    await beat(core)
    await beat(core)
    assert said(core, one)[0] == "Synced"


async def test_nodes_are_compared_also_while_objects_change_all_the_time(monkeypatch):
    """A rule changes: what it selected no longer says so at every node that is away."""
    monkeypatch.setattr(away_objects, "COMPARISONS_MAX", 10)
    nodes = [f"edge-{number}" for number in range(6)]
    core = Core(*nodes).rule(CONFIG_MAPS)
    core.rule({**CONFIG_MAPS, "labelSelector": {"matchLabels": {"tier": "busy"}}}, name="busy")
    for number in range(10):
        core.put(f"c{number}", labels={"tier": "busy"})
    quiet = core.put("quiet")
    for edge in [core.served(node) for node in nodes]:
        edge.leave()
    for _ in range(30):
        await beat(core)
    core.rule({**CONFIG_MAPS, "namespaces": ["other"]}, name="r")
    for second in range(60):
        for number in range(10):
            version = str(2 + second * 10 + number)
            core.put(f"c{number}", version=version, labels={"tier": "busy"}, data={"v": version})
        await beat(core)
    assert {said(core, quiet, node)[0] for node in nodes} == {"Deleting"}


async def test_what_no_rule_selects_stays_as_it_is_held_while_it_is_paused(core):
    """It was to be deleted before its user paused it (seeds 5179 and 900467)."""
    core.put("a", version="1")
    await away(core)
    core.hub.cluster.drop_rule("r")
    await beat(core)
    await beat(core, away_objects.AWAY_SECONDS)
    core.rule(CONFIG_MAPS | {"namespaces": ["other"]}, name="r")
    one = core.put("a", version="2", metadata={"annotations": {PAUSED: "why"}})
    for _ in range(3):
        await beat(core)
    assert said(core, one) == ("Synced", "1", "1") and core.status(one)["reason"] == "Paused"


async def test_objects_to_be_deleted_are_shown_after_a_start_of_the_hub(core):
    """The only rule of its kind is gone, so that no hub that starts asks discovery for the kind."""
    one = core.put("a", version="1")
    await away(core)
    core.hub.cluster.drop_rule("r")
    await beat(core)
    await beat(core, away_objects.AWAY_SECONDS)
    assert said(core, one) == ("Deleting", "1", "") and core.status(one)["reason"] == "NodeAway"
    again = await restarted(core)
    again.hub.cluster.drop_rule("r")
    again.hub.desired_state.kinds.clear()
    again.list_all()
    for _ in range(3):
        await beat(again, away_objects.AGAIN_SECONDS)
    again.hub.reconcile(again.now)
    await beat(again, RETURN_SECONDS)
    assert said(again, one) == ("Deleting", "1", "") and again.status(one)["reason"] == "NodeAway"
