"""What became of deliveries, as ObjectSync documents: behind the truth perhaps, ahead of it never."""

import msgspec
import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, FENCE, Core
from tests.support.hubs.live import CONFIG_MAP, ROUTES, SECRET, live

from fairlead_hub.delivery.delivery_events import Unparked
from fairlead_hub.settings import RecordSettings
from fairlead_hub.status import status_cache
from fairlead_hub.status.object_sync_status import COLLECTIONS
from fairlead_hub.status.status_cache import WriteOutcome


@pytest.fixture
def core():
    return Core("edge-1").rule(CONFIG_MAPS)


async def delivered(core, *names):
    """An edge that holds these, with their records written."""
    objects = [core.put(name) for name in names]
    edge = core.served()
    await core.flush()
    return edge, *objects


def rewritten(core, one, **status):
    """Another program writes the status; the hub's watch brings it."""
    name = (COLLECTIONS[0], one.resource.namespace, f"edge-1.{one.uid}")
    there = core.api.documents[name]
    changed = status_cache.Observed(
        version=f"{int(there.version) + 1000}", generation=1, status={**there.status, **status}, head=there.head
    )
    core.api.documents[name] = changed
    core.hub.documents.observed(name, "edge-1", changed)
    core.hub.sweep(core.now)


async def test_an_ack_is_recorded(core):
    """Which version and content the edge has on disk, since when, under which fencing number."""
    core.now = 2.0
    _, one = await delivered(core, "a")
    status = core.status(one)
    assert (status["objectResourceVersion"], status["wantedResourceVersion"], status["objectDigest"]) == (
        "1", "1", one.digest,
    )  # fmt: skip
    assert (status["state"], status["fence"], status["lastAckTime"]) == ("Synced", FENCE, "2027-01-15T08:00:02Z")


async def test_nothing_is_recorded_before_the_ack(core):
    """What is in flight is no fact yet."""
    one = core.put("a")
    edge = core.connect()
    assert len(edge.sent()) == 1
    await core.flush()
    assert core.status(one) is None


async def test_an_ack_of_an_older_version_is_pending(core):
    """The record names both: what is held and what is wanted."""
    one = core.put("a", data={"n": "1"})
    edge = core.connect()
    [update] = edge.sent()
    core.put("a", data={"n": "2"}, version="2")
    edge.ack(update)
    await core.flush()
    status = core.status(one)
    assert (status["state"], status["objectResourceVersion"], status["wantedResourceVersion"]) == ("Pending", "1", "2")


async def test_a_delete_takes_the_record_along(core):
    """Once the edge has acknowledged it."""
    edge, one = await delivered(core, "a")
    core.remove(one)
    [delete] = edge.sent()
    await core.flush()
    assert core.status(one) is not None
    edge.ack(delete)
    await core.flush()
    assert core.status(one) is None


async def test_a_recreated_object_leaves_one_record(core):
    """The new UID's; the old one's goes with the ack."""
    edge, old = await delivered(core, "a")
    new = core.put("a", uid="new", version="9")
    edge.ack(*edge.sent())
    await core.flush()
    assert core.status(old) is None
    assert core.status(new)["state"] == "Synced"


async def test_parked_says_why_and_when_it_is_tried_again(core):
    """For programs a code, for people a sentence."""
    one = core.put("a")
    edge = core.connect()
    edge.nack(edge.sent()[0], code="too_large", reason="over the limit")
    await core.flush()
    status = core.status(one)
    assert (status["state"], status["reason"], status["retries"]) == ("Parked", "too_large", 0)
    assert status["nextRetryTime"] == "2027-01-15T08:05:00Z"
    assert {c["type"]: c["status"] for c in status["conditions"]} == {"Synced": "False", "Stalled": "True"}
    assert status["objectResourceVersion"] == "", "never acknowledged"


async def test_unparked_is_pending_again(core):
    """A newer version is tried at once, and the record says that it is."""
    one = core.put("a", data={"n": "1"})
    edge = core.connect()
    edge.nack(edge.sent()[0])
    core.put("a", data={"n": "2"}, version="2")
    await core.flush()
    assert (core.status(one)["state"], core.status(one)["reason"]) == ("Pending", "Retrying_newer")


async def test_parked_and_changed_back_is_synced(core):
    """What is wanted again is what the edge held all the time: the record does not go on saying that it is retried."""
    edge, held = await delivered(core, "a")
    core.put("a", data={"n": "2"}, version="2")
    edge.nack(edge.sent()[0])
    await core.flush()
    assert core.status(held)["state"] == "Parked"
    core.put("a", version="3")
    await core.flush()
    assert edge.sent() == [] and core.status(held)["state"] == "Synced"


async def test_who_lags_is_written_down():
    """A connected node that is behind for longer than pending_seconds, once."""
    core = Core("edge-1", record=RecordSettings(pending_seconds=30)).rule(CONFIG_MAPS)
    one = core.put("a")
    core.opened()
    core.hub.sweep(29.0)
    await core.flush()
    assert core.status(one) is None
    core.hub.sweep(31.0)
    await core.flush()
    found = core.status(one)
    assert found is not None and (found["state"], found["reason"]) == ("Pending", "Lagging")
    writes = core.api.writes
    core.hub.sweep(32.0)
    await core.flush()
    assert core.api.writes == writes


async def test_what_stands_there_already_is_not_written_again(core):
    """A reconnect with everything in place costs no API write."""
    edge, one = await delivered(core, "a")
    writes = core.api.writes
    edge.leave()
    core.now = 60.0
    core.connect("edge-1", one)
    await core.flush()
    assert core.api.writes == writes


async def test_a_wiped_store_lowers_its_records(core):
    """The record must not lead: what the edge lost is wanted, not held."""
    edge, one = await delivered(core, "a")
    edge.leave()
    core.connect("edge-1").sent()
    await core.flush()
    status = core.status(one)
    assert (status["state"], status["objectResourceVersion"], status["objectDigest"]) == ("Pending", "", "")


async def test_a_record_of_what_is_neither_held_nor_wanted_goes(core):
    """A crash between the edge's delete and the record's leaves it; the next comparison finds it."""
    edge, one = await delivered(core, "a")
    edge.leave()
    core.remove(one)
    core.connect("edge-1").sent()
    await core.flush()
    assert core.names() == []


async def test_a_crash_before_the_write_is_made_good(core):
    """The edge holds it, no record says so: the comparison after the restart writes it."""
    one = core.put("a")
    core.connect("edge-1", one).sent()
    await core.flush()
    assert core.status(one)["state"] == "Synced"


@pytest.mark.parametrize("lie", [{"objectResourceVersion": "99"}, {"state": "Parked"}, {"objectDigest": ""}])
async def test_a_record_changed_by_hand_is_set_right(core, lie):
    """What others write does not make a status say what is not."""
    _, one = await delivered(core, "a")
    truth = core.status(one)
    rewritten(core, one, **lie)
    await core.flush()
    assert {key: core.status(one)[key] for key in lie} == {key: truth[key] for key in lie}


async def test_a_record_deleted_by_hand_is_written_again(core):
    """The edge still holds the object."""
    _, one = await delivered(core, "a")
    [name] = core.names()
    del core.api.documents[name]
    core.hub.documents.vanished(name, "edge-1")
    core.hub.sweep(core.now)
    await core.flush()
    assert core.status(one)["state"] == "Synced"


async def test_a_forgotten_node_loses_all_its_records(core):
    """And only its own."""
    core.node("edge-2")
    _, one = await delivered(core, "a")
    core.served("edge-2")
    await core.flush()
    assert core.hub.object_syncs.forget_node("edge-1") == 1
    await core.flush()
    assert core.status(one) is None
    assert core.status(one, "edge-2") is not None


async def test_of_a_deleted_node_nothing_is_written_any_more(core):
    """What waited to be written is forgotten; what is being written is removed behind that write."""
    edge, one = await delivered(core, "a")
    two, three = core.put("b"), core.put("c")
    written, later = edge.sent()
    edge.ack(written)
    [write] = [each for each in core.take_ready().documents if each.wanted.name[0] == COLLECTIONS[0]]
    edge.ack(later)
    core.hub.cluster.drop_node("edge-1", core.now)
    answer, there = await core.api.put(write.wanted, write.observed, core.hub.fence)
    core.hub.documents.answered(write.wanted, answer, there, core.now)
    await core.flush()
    assert [core.status(each) for each in (one, two, three)] == [None, None, None] and core.names() == []


async def test_a_removal_that_waits_outlives_its_node(core):
    """The write before it conflicted, so it is not known which version stands; it is removed all the same."""
    edge, one = await delivered(core, "a")
    core.remove(one)
    edge.ack(*edge.sent())
    [write] = [each for each in core.take_ready().documents if each.wanted.name[0] == COLLECTIONS[0]]
    core.hub.documents.answered(write.wanted, WriteOutcome.CONFLICT, None, core.now)
    core.hub.cluster.drop_node("edge-1", core.now)
    await core.flush()
    assert core.names() == []


async def test_cluster_scoped_objects_have_cluster_scoped_records(core):
    """EdgeRoutes live in no namespace, and neither do their records."""
    routes = core.put("main", ROUTES, namespace="", spec={"routes": {}})
    core.served()
    await core.flush()
    assert [name[0] for name in core.names(COLLECTIONS[1])] == ["clusterobjectsyncs"]
    assert core.status(routes)["state"] == "Synced"


def test_an_event_is_about_the_record(core):
    """With the collection that fits the object's scope."""
    one, routes = live(CONFIG_MAP, "a"), live(ROUTES, "main", namespace="")

    def about(which):
        event = Unparked(key=which.key, uid=which.uid, path=which.path, why="newer")
        return core.hub.object_syncs.notice("edge-1", event, "Normal", "Unparked", "tried again")

    assert (about(one).kind, about(one).namespace, about(one).name) == ("ObjectSync", "shop", "edge-1.uid-a")
    assert about(routes).kind == "ClusterObjectSync"


async def test_how_far_records_are_behind_is_known(core):
    """From the ack until the write; a record that is written lags no more."""
    core.now = 5.0
    one = core.put("a")
    core.served()
    assert list(core.hub.status_cache.behind_since.values()) == [5.0]
    await core.flush()
    assert not core.hub.status_cache.behind_since and core.status(one)["state"] == "Synced"


async def test_synced_names_one_version_after_a_change_that_was_taken_back_in_flight(core):
    """The node holds what is wanted, under an older version: both columns show the newer one, and so does explain."""
    core.put("a", version="5", data={"n": "1"})
    edge = core.connect()
    [update] = edge.sent()
    core.put("a", version="6", data={"n": "2"})
    one = core.put("a", version="7", data={"n": "1"})
    edge.ack(update)
    assert edge.sent() == []
    await core.flush()
    status = core.status(one)
    assert (status["state"], status["objectResourceVersion"], status["wantedResourceVersion"]) == ("Synced", "7", "7")
    said = core.hub.view.explained("edge-1", "configmap", "shop", "a", core.now)
    assert said["wanted"] == said["held"]


async def test_a_change_of_status_alone_moves_neither_version(core):
    """Nothing is delivered, and nothing is written."""
    one = core.put("a", version="5", data={"n": "1"})
    edge = core.served()
    await core.flush()
    writes = core.api.writes
    core.put("a", version="6", data={"n": "1"}, status={"phase": "x"})
    core.hub.sweep(core.now)
    core.hub.reconcile(core.now)
    assert edge.sent() == []
    await core.flush()
    assert core.api.writes == writes
    status = core.status(one)
    assert (status["state"], status["objectResourceVersion"], status["wantedResourceVersion"]) == ("Synced", "5", "5")


async def test_no_record_is_written_of_what_only_the_node_claims_to_hold(core):
    """Objects that never existed, in a missing namespace: compared, late, refused and away, nothing is written."""
    real = core.put("real")
    claims = [live(SECRET, f"fake-{at}", namespace="no-such-namespace") for at in range(20)]
    edge = core.connect("edge-1", real, *claims)
    deletes = edge.sent()
    assert len(deletes) == 20
    edge.nack(deletes[0], code="refused", reason="I keep it")
    for seconds in (1.0, 100.0, 1000.0):
        core.now += seconds
        core.hub.heartbeat(core.now)
        core.settle()
        await core.flush()
    edge.leave()
    core.now += 1000.0
    core.hub.heartbeat(core.now)
    core.hub.reconcile(core.now)
    core.settle()
    await core.flush()
    assert core.names() == [(COLLECTIONS[0], "shop", f"edge-1.{real.uid}")]
    assert not core.names(COLLECTIONS[1]) and not len(core.hub.status_cache)
    assert not [event for event in core.take_kube_events() if "fake" in str(event)]


async def test_what_was_placed_there_is_told_until_it_is_removed(core):
    """A record says that it was: the next hub tells that it is to be deleted, and forgets it when it is."""
    one = core.put("a")
    edge = core.served()
    await core.flush()
    edge.leave()
    core.remove(one)
    edge = core.connect("edge-1", one)
    deletes = edge.sent()
    await core.flush()
    assert [type(each).__name__ for each in deletes] == ["Delete"] and core.status(one) is not None
    edge.ack(*deletes)
    await core.flush()
    assert core.status(one) is None


async def test_a_claim_with_the_uid_of_a_wanted_object_gets_no_record(core):
    """Its UID and digest are known to the node: another name, kind or namespace under them proves nothing."""
    real = core.put("real")
    fakes = [live(SECRET, f"fake-{at}", namespace=f"other-{at}", uid=real.uid) for at in range(3)]
    fakes.append(live(SECRET, "fake", uid=real.uid))
    claims = [msgspec.structs.replace(each, digest=real.digest) for each in fakes]
    edge = core.connect("edge-1", *claims)
    sent = edge.sent()
    await core.flush()
    assert not core.names() and not len(core.hub.status_cache), "nothing was delivered yet"
    assert [type(each).__name__ for each in sent].count("Delete") == len(claims), "what nobody wants is deleted there"
    edge.leave()
    core.connect("edge-1", real).sent()
    await core.flush()
    assert core.names() == [(COLLECTIONS[0], "shop", f"edge-1.{real.uid}")]
    assert core.status(real)["state"] == "Synced", "its digest is the proof"
    edge = core.opened("edge-1", real, *claims)
    await core.flush()
    assert core.names() == [(COLLECTIONS[0], "shop", f"edge-1.{real.uid}")]
    assert core.status(real)["state"] == "Synced"
