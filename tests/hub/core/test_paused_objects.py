"""A paused object: nothing of it is sent to any node while its annotation stands there, and everybody says so."""

from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import CONFIG_MAP, SECRET

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.settings import DeletionGuardSettings
from fairlead_hub.status.object_sync_status import COLLECTIONS
from fairlead_wire import message
from fairlead_wire.objects.api_group import PAUSED

WHY = "price list is checked by hand"
PAUSE = {"annotations": {PAUSED: WHY}}


def short(headers):
    return sorted((type(header).__name__, header.resource.rsplit("/", 1)[1]) for header in headers)


def started():
    """Another hub: everything is listed but the ObjectSyncs."""
    again = Core("edge-1", listed=False)
    for name in ("nodes", "syncrules", "edgeroutes"):
        again.hub.cluster.input_synced(name)
    again.rule(CONFIG_MAPS)
    again.hub.cluster.kind_synced(CONFIG_MAP.group_kind)
    again.hub.cluster.input_synced(EDGE_NODES)
    return again


def documents_of(core, again):
    """Its watch brings what the hub before it wrote."""
    for name, there in core.api.documents.items():
        again.hub.documents.observed(name, "edge-1", there)
    for collection in COLLECTIONS:
        again.hub.documents.listed(collection, again.now)


async def status(core, one, node="edge-1"):
    core.hub.sweep(core.now)
    await core.flush()
    return core.status(one, node)


def answer(core, name="a", node="edge-1"):
    return core.hub.view.explained(node, "configmap", "shop", name, core.now)


async def test_a_paused_object_is_sent_to_no_node_and_resumed_at_once_with_its_newest_content(core):
    """Others go on; ObjectSync and explain give the reason; after the resume nothing of it is left."""
    core.put("a", data={"v": "1"})
    edges = [core.connect("edge-1"), core.connect("edge-2")]
    for edge in edges:
        edge.ack(*edge.sent())
    core.put("a", version="2", metadata=PAUSE, data={"v": "1"})
    core.put("a", version="3", metadata=PAUSE, data={"v": "2"})
    one = core.put("a", version="4", metadata=PAUSE, data={"v": "3"})
    core.put("b")
    for edge, node in zip(edges, ("edge-1", "edge-2"), strict=True):
        sent = edge.sent()
        assert short(sent) == [("Update", "b")]
        edge.ack(*sent)
        assert not edge.session.has_frames
        said = await status(core, one, node)
        assert (said["state"], said["reason"]) == ("Pending", "Paused")
        assert (said["objectResourceVersion"], said["conditions"][0]["message"]) == ("1", WHY)
        assert answer(core, node=node)["code"] == "paused" and WHY in answer(core, node=node)["answer"]
    one = core.put("a", version="5", data={"v": "3"})
    for edge in edges:
        [update] = edge.sent()
        assert update.resource_version == "4", "the version from which the content is"
        edge.ack(update)
    said = await status(core, one)
    assert (said["state"], said["reason"], said["objectResourceVersion"]) == ("Synced", "", "4")
    assert answer(core)["code"] == "held" and "paused" not in answer(core)["answer"]


async def test_the_annotation_alone_sends_nothing(core):
    """Set, changed, removed: an ObjectSync in sync stays Synced, and names the reason while it stands there."""
    one = core.put("a")
    edge = core.served()
    assert (await status(core, one))["reason"] == ""
    for version, why in (("2", "first"), ("3", "second")):
        core.put("a", version=version, metadata={"annotations": {PAUSED: why}})
        assert edge.sent() == []
        said = await status(core, one)
        assert (said["state"], said["reason"], said["conditions"][0]["message"]) == ("Synced", "Paused", why)
        assert said["conditions"][0]["status"] == "True"
        assert answer(core)["code"] == "held" and why in answer(core)["answer"]
    core.put("a", version="4")
    assert edge.sent() == []
    said = await status(core, one)
    assert (said["state"], said["reason"], said["objectResourceVersion"]) == ("Synced", "", "1")


async def test_a_changing_paused_object_writes_its_status_once(core):
    """However often the object changes: one write for each node."""
    core.put("a", metadata=PAUSE)
    edge = core.opened()
    await core.flush()
    before = core.api.writes
    for version in range(2, 50):
        one = core.put("a", version=str(version), metadata=PAUSE, data={"v": str(version)})
        assert edge.sent() == []
        await status(core, one)
        core.hub.reconcile(core.now)
    assert core.api.writes == before
    assert (await status(core, one))["wantedResourceVersion"] == "1", "as of when it began to wait"


async def test_a_paused_object_that_nothing_selects_any_more_stays_until_the_pause_ends(core):
    """A rule deleted: the node keeps what it holds, and the delete goes when the annotation is removed."""
    one = core.put("a")
    edge = core.served()
    core.put("a", version="2", metadata=PAUSE)
    core.rule({"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"tier": "none"}}})
    assert edge.sent() == []
    said = await status(core, one)
    assert (said["state"], said["reason"], said["conditions"][0]["message"]) == ("Deleting", "Paused", WHY)
    assert answer(core)["code"] == "paused" and WHY in answer(core)["answer"]
    core.put("a", version="3")
    sent = edge.sent()
    assert short(sent) == [("Delete", "a")]
    edge.ack(*sent)
    assert await status(core, one) is None


async def test_a_paused_object_that_is_deleted_is_removed_from_the_nodes(core):
    """The annotation went with the object, wherever it was wanted."""
    one = core.put("a")
    edge = core.served()
    one = core.put("a", version="2", metadata=PAUSE, data={"v": "2"})
    assert edge.sent() == []
    core.remove(one)
    assert short(edge.sent()) == [("Delete", "a")]


def test_one_deleted_where_nothing_selects_it_is_removed_there_too(core):
    """Its node keeps it because of the pause alone."""
    core.put("a")
    edge = core.served()
    one = core.put("a", version="2", metadata=PAUSE)
    core.rule({"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"tier": "none"}}})
    assert edge.sent() == []
    core.remove(one)
    assert short(edge.sent()) == [("Delete", "a")]


def test_a_namesake_made_anew_is_not_paused(core):
    """The pause is of one object, not of a name."""
    core.put("a")
    edge = core.served()
    core.put("a", version="2", metadata=PAUSE, data={"v": "2"})
    assert edge.sent() == []
    core.put("a", uid="another", version="3", data={"v": "3"})
    assert short(edge.sent()) == [("Update", "a")]


def test_a_pause_outlives_the_hub_and_the_connection(core):
    """A node that comes back is compared and sent nothing of it; nor is one that never held it."""
    old = core.put("a", data={"v": "1"})
    core.put("a", version="2", metadata=PAUSE, data={"v": "2"})
    assert core.connect("edge-1", old).sent() == []
    assert core.connect("edge-2").sent() == []


def test_what_is_in_flight_is_believed_and_not_sent_again(core):
    """The answer counts; without one nothing is repeated before the pause ends."""
    core.put("a", data={"v": "1"})
    edge = core.connect()
    [update] = edge.sent()
    core.put("a", version="2", metadata=PAUSE, data={"v": "1"})
    core.now += 6  # longer than the ack timeout
    core.settle()
    core.now += 2  # longer than the retry's delay
    core.settle()
    assert edge.sent() == []
    edge.ack(update)
    assert answer(core)["code"] == "held"


def test_a_parked_object_is_not_tried_again_while_it_is_paused(core):
    """Neither by its schedule."""
    core.put("a", data={"v": "1"})
    edge = core.connect()
    [update] = edge.sent()
    edge.nack(update)
    core.put("a", version="2", metadata=PAUSE, data={"v": "1"})
    core.now += core.hub.settings.reconcile.parked_retry_seconds + 1
    edge.say(message.Keepalive())
    core.settle()
    assert edge.sent() == []
    core.put("a", version="3", data={"v": "1"})
    assert short(edge.sent()) == [("Update", "a")]


def test_a_paused_deletion_does_not_trip_the_deletion_guard():
    """Nothing of it is removed."""
    core = Core("edge-1", deletion_guard=DeletionGuardSettings(removals_max=1)).rule(CONFIG_MAPS)
    for name in "ab":
        core.put(name, metadata={"labels": {"tier": "x"}})
    edge = core.served()
    for name in "ab":
        core.put(name, version="2", metadata={"labels": {"tier": "x"}, **PAUSE})
    core.rule({"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"tier": "none"}}})
    assert edge.sent() == []
    assert not core.hub.node_controls.tripped()


async def test_a_hub_that_starts_knows_of_paused_objects_whose_kind_no_rule_names(core):
    """Their ObjectSyncs say so: the kind is watched, and nothing of it is deleted before that was reported."""
    one = core.put("a", kind=SECRET)
    core.rule({"apiVersion": "v1", "kind": "Secret"}, name="s")
    edge = core.served()
    core.put("a", kind=SECRET, version="2", metadata=PAUSE)
    edge.sent()
    assert (await status(core, one))["reason"] == "Paused"
    core.hub.cluster.drop_rule("s")
    assert edge.sent() == [] and SECRET.group_kind in core.hub.placement.kinds(), (
        "it is watched as long as it is paused"
    )

    again = started()
    edge = again.connect("edge-1", one)
    assert edge.sent() == []
    assert "ObjectSyncs are not listed" in next(iter(edge.session.keys.unsynced.kept().values())).why
    documents_of(core, again)
    assert edge.sent() == [] and again.hub.placement.kinds()[SECRET.group_kind] == ("v1",)
    paused = again.put("a", kind=SECRET, version="2", metadata=PAUSE)
    again.hub.cluster.kind_synced(SECRET.group_kind)
    assert edge.sent() == [] and WHY in next(iter(edge.session.keys.unsynced.kept().values())).why
    again.remove(paused)
    assert short(edge.sent()) == [("Delete", "a")]


async def test_parked_object_that_is_paused_says_so(core):
    """Whether its content is another one by then or not: the next hub learns from that which kinds to follow."""
    core.put("a", data={"v": "1"})
    edge = core.connect()
    edge.nack(*edge.sent())
    await core.flush()
    one = core.put("a", version="2", metadata=PAUSE, data={"v": "2"})
    assert edge.sent() == []
    said = await status(core, one)
    assert (said["state"], said["reason"]) == ("Pending", "Paused")


async def test_parked_and_paused_object_is_not_deleted_after_a_restart(core):
    """The last rule of its kind went while no hub ran."""
    core.rule({"apiVersion": "v1", "kind": "Secret"}, name="s")
    held = core.put("a", kind=SECRET, data={"v": "1"})
    edge = core.served()
    core.put("a", kind=SECRET, version="2", data={"v": "2"})
    edge.nack(*edge.sent())
    await core.flush()
    one = core.put("a", kind=SECRET, version="3", metadata=PAUSE, data={"v": "2"})
    assert edge.sent() == []
    assert (await status(core, one))["reason"] == "Paused"
    again = started()
    edge = again.connect("edge-1", held)
    documents_of(core, again)
    assert short(edge.sent()) == []
