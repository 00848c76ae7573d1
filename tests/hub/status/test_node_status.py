"""EdgeNode documents: written when there is something to tell, and not otherwise."""

import msgspec
import pytest
from tests.support.hubs.hub_core import Core

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.status import node_status
from fairlead_hub.status.debounce import AWAY_SECONDS, COMING_SECONDS, COUNTS_SECONDS, TIMES_SECONDS
from fairlead_hub.status.status_cache import Observed, StatusDocument
from fairlead_wire import message


def edge_node(core, name="edge-1"):
    found = core.api.documents.get((EDGE_NODES, "", name))
    return None if found is None else found.status


async def reported(core, now):
    core.now = now
    core.hub.report(now)
    await core.flush()


async def come_up(core):
    """An edge with a session, and its EdgeNode as it is written when nothing more comes within seconds."""
    edge = core.opened()
    await written_at(core, 1.0)
    return edge


async def written_at(core, now):
    await reported(core, now)
    await reported(core, now + COMING_SECONDS)


async def test_edge_nodes_are_written_on_transitions(core):
    """Connected and away; a node that never came has none."""
    await reported(core, 0.0)
    assert edge_node(core) is None
    core.put("a")
    edge = core.served()
    await written_at(core, 1.0)
    status = edge_node(core)
    assert (status["connected"], status["objectsWanted"], status["objectsHeld"]) == (True, 1, 1)
    assert (status["storeEpoch"], status["agentVersion"], status["hub"]) == ("7", "1.0", "hub-1")
    edge.leave()
    await reported(core, 4.0)
    await reported(core, 4.0 + AWAY_SECONDS)
    assert edge_node(core)["connected"] is False
    assert edge_node(core)["objectsHeld"] == 1, "what it held when it left"
    assert [each.reason for each in core.take_kube_events()] == ["Connected", "Away"]


async def test_a_quiet_node_is_written_every_few_minutes_at_most(core):
    """Contact times alone are no reason."""
    edge = await come_up(core)
    writes = core.api.writes
    assert writes == 2, "its creation and its status"
    for now in range(4, int(node_status.REPORT_SECONDS)):
        core.hub.sessions.receive(edge.ref, message.Keepalive(), b"", float(now))
        await reported(core, float(now))
    assert core.api.writes == writes
    await reported(core, 1.0 + COMING_SECONDS + node_status.REPORT_SECONDS)
    assert core.api.writes == writes + 1


async def test_a_node_that_comes_up_is_written_once(core):
    """However its objects trickle in within seconds; 2,000 that come at once would be 4,000 writes more."""
    edge = core.served()
    for number in range(8):
        await reported(core, 1.0 + number)
        core.put(f"c{number}")
        if number == 0:
            assert edge_node(core) is None
        edge.ack(*edge.sent())
    await reported(core, 9.0 + COUNTS_SECONDS)
    assert edge_node(core)["objectsHeld"] == 8
    records = sum(name[0] != EDGE_NODES for name in core.api.documents)
    assert core.api.writes - 2 * records <= 3, "its creation, its status, and once what came afterwards"


async def test_a_link_that_was_away_for_a_moment_is_not_written(core):
    """A storm of short breaks writes nothing."""
    edge = await come_up(core)
    writes = core.api.writes
    edge.leave()
    await reported(core, 5.0)
    core.connect()
    for now in range(6, 20):
        await reported(core, float(now))
    assert core.api.writes == writes


async def test_what_a_person_has_to_know_is_written_at_once(core):
    """A parked object, while others are on their way."""
    core.put("a")
    core.put("b")
    edge = core.connect()
    for sent in edge.sent()[:1]:
        edge.nack(sent, permanent=True)
    await reported(core, 1.0)
    assert edge_node(core)["objectsParked"] == 1


async def test_at_the_end_nothing_waits(core):
    """A hub that stops leaves the truth behind."""
    edge = core.opened()
    await reported(core, 1.0)
    edge.leave()
    core.hub.report(1.5, last=True)
    await core.flush()
    assert edge_node(core) is None or edge_node(core)["connected"] is False


async def test_the_reports_of_an_edge_are_in_its_edge_node(core):
    """Queues by priority, dead letters, bytes."""
    edge = core.opened()
    queue = message.QueueStatus(endpoint="iothub", priority=0, length=3, bytes=99, oldest_age_seconds=4.5)
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=0, queues=[queue], dead_letters=2)))
    await written_at(core, 1.0)
    status = edge_node(core)
    assert (status["queuedMessages"], status["deadLetters"], status["queues"][0]["oldestAgeSeconds"]) == (3, 2, 4)


@pytest.mark.parametrize(
    "edit", [{"connected": False}, {"objectsHeld": 7}, {"objectsParked": 3}, {"grantedTopics": []}]
)
async def test_what_others_wrote_of_a_node_that_is_here_is_set_right(core, edit):
    """An older copy of the API server, or a person with kubectl: not for the minutes until it is written anyway."""
    core.opened()
    await written_at(core, 1.0)
    there, writes = edge_node(core), core.api.writes
    name = (EDGE_NODES, "", "edge-1")
    status = {**there, **edit}
    core.api.documents[name] = edited = Observed(version="900", generation=1, status=status, head={"spec": {}})
    core.api._version = 900
    core.hub.documents.edge_node_observed("edge-1", edited, {}, 5.0)
    await reported(core, 6.0)
    await reported(core, 6.0 + COUNTS_SECONDS)
    assert {key: edge_node(core)[key] for key in edit} == {key: there[key] for key in edit}
    assert core.api.writes == writes + 1


async def test_a_restarted_hub_gives_nodes_time_to_return(core):
    """A storm of reconnects writes no EdgeNode; who has not returned after half a minute is called away."""
    core.connect("edge-1")
    await written_at(core, 1.0)
    [there] = [one for name, one in core.api.documents.items() if name[0] == EDGE_NODES]
    after = Core("edge-1")
    after.hub.documents.edge_node_observed("edge-1", there, {}, after.now)
    after.hub.report(after.now)
    assert after.hub.status_cache.pending((EDGE_NODES, "", "edge-1")) is None
    after.now += 29
    after.hub.report(after.now)
    assert after.hub.status_cache.pending((EDGE_NODES, "", "edge-1")) is None
    after.now += 2
    after.hub.report(after.now)
    wanted = after.hub.status_cache.pending((EDGE_NODES, "", "edge-1"))
    assert isinstance(wanted, StatusDocument) and wanted.status(there)["connected"] is False


async def test_the_return_of_all_is_followed(core):
    """Which nodes were connected before this start and are not back yet; reported once when all are."""
    for name in ("edge-1", "edge-2"):
        core.connect(name)
    await written_at(core, 1.0)
    after = Core("edge-1", "edge-2")
    for name in ("edge-1", "edge-2"):
        after.hub.documents.edge_node_observed(name, core.api.documents[(EDGE_NODES, "", name)], {}, after.now)
    assert after.hub.node_status.returning.waiting == 2
    after.hub.report(after.now)
    assert after.hub.node_status.returned(after.now) is None
    after.connect("edge-1")
    after.connect("edge-2")
    assert after.hub.node_status.returning.waiting == 0
    said = after.hub.node_status.returned(after.now + 4.0)
    assert said is not None
    assert (said.returned, said.missing, said.seconds) == (2, 0, 4.0)
    assert after.hub.node_status.returned(after.now + 5.0) is None


def say_times(edge, p95, *, measured=1, priority=0):
    told = [message.ToTable(priority=priority, measured=measured, p50_seconds=1.0, p95_seconds=p95)]
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=0, to_table=told)))


async def test_how_long_messages_take_is_written_where_it_is_news(core):
    """First figures soon; later ones with other news, or within a minute where a time doubled."""
    edge = await come_up(core)
    assert edge_node(core)["toTable"] == []
    say_times(edge, 2.0)
    await reported(core, 5.0)
    await reported(core, 5.0 + COUNTS_SECONDS)
    [row] = edge_node(core)["toTable"]
    assert (row["measured"], row["window"], row["p95Seconds"]) == (1, 1, 2.0)
    writes = core.api.writes
    for number in range(40):
        say_times(edge, 2.0 + number / 40, measured=2 + number)
        await reported(core, 20.0 + number)
    assert core.api.writes == writes
    for number in range(50):
        say_times(edge, 100.0 + number, measured=100 + number)
        await reported(core, 60.0 + number)
    assert core.api.writes == writes
    await reported(core, 60.0 + TIMES_SECONDS)
    assert core.api.writes == writes + 1 and edge_node(core)["toTable"][0]["p95Seconds"] == 149.0


async def test_a_time_that_is_back_within_the_minute_is_not_written(core):
    edge = core.opened()
    say_times(edge, 2.0)
    await reported(core, 1.0)
    await reported(core, 1.0 + COUNTS_SECONDS)
    writes = core.api.writes
    say_times(edge, 200.0, measured=2)
    await reported(core, 20.0)
    say_times(edge, 2.1, measured=3)
    for now in (21.0, 20.0 + TIMES_SECONDS, 30.0 + TIMES_SECONDS):
        await reported(core, now)
    assert core.api.writes == writes


async def test_a_node_that_is_away_keeps_what_it_said(core):
    """Also for the hub after this one, which never heard it."""
    edge = core.opened()
    say_times(edge, 2.0)
    await reported(core, 1.0)
    await reported(core, 1.0 + COUNTS_SECONDS)
    edge.leave()
    await reported(core, 12.0)
    await reported(core, 12.0 + AWAY_SECONDS)
    status = edge_node(core)
    assert status["connected"] is False and status["toTable"][0]["p95Seconds"] == 2.0


async def test_definitions_without_the_times_do_not_make_the_hub_write_again_and_again(core):
    """An older definition drops the field from all that is written."""
    edge = await come_up(core)
    name = (EDGE_NODES, "", "edge-1")
    there = core.hub.status_cache.observed[name]
    status = {key: value for key, value in there.status.items() if key != "toTable"}
    core.hub.status_cache.observed[name] = Observed(
        version=there.version, generation=there.generation, status=status, head=there.head, uid=there.uid
    )
    writes = core.api.writes
    for number in range(100):
        say_times(edge, 2.0 ** (number % 9), measured=number + 1, priority=number % 3)
        await reported(core, 4.0 + number)
    assert core.api.writes == writes
