"""EdgeNode documents: written when there is something to tell, and not otherwise."""

import msgspec
import pytest
from tests.support.hub_core import CONFIG_MAPS, Core

from fairlead_hub import accounts
from fairlead_hub.accounts import EDGE_NODES
from fairlead_wire import message


@pytest.fixture
def core():
    made = Core("edge-1", "edge-2")
    made.rule(CONFIG_MAPS)
    return made


def edge_node(core, name="edge-1"):
    found = core.ledger.documents.get((EDGE_NODES, "", name))
    return None if found is None else found.status


async def reported(core, now):
    core.now = now
    core.hub.report(now)
    await core.flush()


async def test_edge_nodes_are_written_on_transitions(core):
    """Connected and away; a node that never came has none."""
    await reported(core, 0.0)
    assert edge_node(core) is None
    core.put("a")
    edge = core.connect()
    edge.ack(*edge.sent())
    await reported(core, 1.0)
    status = edge_node(core)
    assert (status["connected"], status["objectsWanted"], status["objectsHeld"]) == (True, 1, 1)
    assert (status["storeEpoch"], status["agentVersion"], status["hub"]) == ("7", "1.0", "hub-1")
    edge.leave()
    await reported(core, 2.0)
    assert edge_node(core)["connected"] is False
    assert edge_node(core)["objectsHeld"] == 1, "what it held when it left"
    assert [each.reason for each in core.hub.happenings.take()] == ["Connected", "Away"]


async def test_a_quiet_node_is_written_every_few_minutes_at_most(core):
    """Contact times alone are no reason."""
    edge = core.connect()
    edge.sent()
    await reported(core, 1.0)
    writes = core.ledger.writes
    for now in range(2, int(accounts.REPORT_SECONDS)):
        edge.session.receive(message.Keepalive(), b"", float(now))
        await reported(core, float(now))
    assert core.ledger.writes == writes
    await reported(core, 1.0 + accounts.REPORT_SECONDS)
    assert core.ledger.writes == writes + 1


async def test_what_an_edge_says_of_itself_is_in_its_edge_node(core):
    """Queues by priority, dead letters, bytes."""
    edge = core.connect()
    edge.sent()
    queue = message.QueueStatus(endpoint="iothub", priority=0, length=3, bytes=99, oldest_age_seconds=4.5)
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=0, queues=[queue], dead_letters=2)))
    await reported(core, 1.0)
    status = edge_node(core)
    assert (status["queuedMessages"], status["deadLetters"], status["queues"][0]["oldestAgeSeconds"]) == (3, 2, 4)


async def test_a_restarted_hub_gives_nodes_time_to_return(core):
    """A storm of reconnects writes no EdgeNode; who has not returned after half a minute is called away."""
    core.connect("edge-1")
    core.hub.report(core.now)
    await core.flush()
    [there] = [one for name, one in core.ledger.documents.items() if name[0] == EDGE_NODES]
    after = Core("edge-1")
    after.hub.accounts.observed("edge-1", there)
    after.hub.report(after.now)
    assert after.hub.book.pending((EDGE_NODES, "", "edge-1")) is None
    after.now += 29
    after.hub.report(after.now)
    assert after.hub.book.pending((EDGE_NODES, "", "edge-1")) is None
    after.now += 2
    after.hub.report(after.now)
    wanted = after.hub.book.pending((EDGE_NODES, "", "edge-1"))
    assert wanted is not None and wanted.status(there)["connected"] is False
