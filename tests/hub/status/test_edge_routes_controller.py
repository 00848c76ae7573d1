"""EdgeRoutes' controller: what each node makes of each object, judged when something about it changed."""

import msgspec
import pytest
from tests.support.hubs.hub_core import Core
from tests.support.hubs.live import ROUTES

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.status.edge_routes_controller import EdgeRoutesController
from fairlead_wire import message

UP = {"r": "FROM /* INTO $upstream"}
BAD = message.RouteError(route="r", message="expected a source", line=1, column=5, end_column=6)


@pytest.fixture
def core() -> Core:
    return Core("edge-1", "edge-2")


def put(core, version="1", generation=1, **spec):
    metadata = {"generation": generation}
    return core.put("main", ROUTES, namespace="", version=version, metadata=metadata, spec={"routes": UP, **spec})


def tell(edge, one, *errors, digest=None):
    report = message.RoutesStatus(
        uid=one.uid, resource_version=one.version, accepted=["r"], errors=list(errors),
        digest=one.digest if digest is None else digest,
    )  # fmt: skip
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=1, routes={"main": report})))


def counts(core):
    core.hub.edge_routes.judge()
    found = core.hub.edge_routes.of("main")
    return found.selected, found.refused, found.lagging


def row(core, node="edge-1"):
    return next((row for row in core.hub.edge_routes.rows_of(node) if row["name"] == "main"), None)


async def written(core, seconds=30):
    """EdgeNodes are written as far as they ever will be."""
    for _ in range(seconds):
        core.now += 1
        core.hub.report(core.now)
        await core.flush()


def test_a_node_that_accepts_is_counted_and_has_a_row(core):
    """Once it holds the content, and has said what it makes of it."""
    one = put(core)
    assert counts(core) == (2, 0, 2)
    edge = core.served()
    assert counts(core) == (2, 0, 2), "it has not said anything"
    tell(edge, one)
    assert counts(core) == (2, 0, 1)
    assert (row(core)["state"], row(core)["acceptedRoutes"]) == ("Accepted", ["r"])


def test_a_node_that_refuses_is_named_with_its_errors(core):
    """In its own row in full."""
    one = put(core)
    edge = core.served()
    tell(edge, one, BAD)
    assert counts(core) == (2, 1, 1)
    [failing] = core.hub.edge_routes.of("main").first_refused(50)
    assert (failing["node"], failing["errors"][0]["column"]) == ("edge-1", 5)


def test_only_what_changed_is_judged_again(core, monkeypatch):
    """A report of one node costs one look, however many nodes there are."""
    for number in range(100):
        core.node(f"far-{number}")
    one = put(core)
    edge = core.served()
    counts(core)
    looked: list[str] = []
    judge = EdgeRoutesController._outcome

    def looks(self, node, routes):
        looked.append(node)
        return judge(self, node, routes)

    monkeypatch.setattr(EdgeRoutesController, "_outcome", looks)
    assert core.hub.edge_routes.judge() == set()
    tell(edge, one)
    assert core.hub.edge_routes.judge() == {"main"}
    assert looked == ["edge-1"]


def test_labels_decide_whom_an_object_is_for(core):
    """Of the object, and of the node."""
    put(core, nodeSelector={"matchLabels": {"site": "harbour"}})
    assert counts(core) == (0, 0, 0)
    core.node("edge-1", site="harbour")
    assert counts(core) == (1, 0, 1)
    core.hub.cluster.drop_node("edge-1", core.now)
    assert counts(core) == (0, 0, 0)


def test_an_object_that_is_gone_is_forgotten(core):
    """Its rows, too."""
    one = put(core)
    edge = core.served()
    tell(edge, one)
    core.hub.edge_routes.judge()
    core.remove(one)
    assert core.hub.edge_routes.judge() == {"main"}
    assert core.hub.edge_routes.of("main") is None and row(core) is None


async def test_what_a_node_said_holds_while_it_is_away_and_over_a_restart(core):
    """Its EdgeNode remembers; after a change of the object it lags until it is back."""
    one = put(core)
    edge = core.served()
    tell(edge, one)
    edge.leave()
    assert counts(core) == (2, 0, 1), "not written yet, and true all the same"
    await written(core)
    [kept] = core.api.documents[(EDGE_NODES, "", "edge-1")].status["routes"]
    assert (kept["name"], kept["state"]) == ("main", "Accepted")
    again = Core("edge-1", "edge-2")
    again.hub.documents.edge_node_observed("edge-1", core.api.documents[(EDGE_NODES, "", "edge-1")], {}, again.now)
    put(again)
    assert counts(again) == (2, 0, 1)
    put(again, version="2", generation=2, routes={**UP, "s": UP["r"]})
    assert counts(again) == (2, 0, 2)


async def test_a_refusal_is_written_at_once_and_acceptance_with_what_else_settles(core):
    """A person has to mend the one; thousands of nodes say the other at the same time."""
    one = put(core)
    edge = core.served()
    await written(core)
    tell(edge, one)
    await written(core, 1)
    document = (EDGE_NODES, "", "edge-1")
    assert core.api.documents[document].status["routes"][0]["state"] == "Lagging"
    tell(edge, one, BAD)
    await written(core, 1)
    assert core.api.documents[document].status["routes"][0]["state"] == "Refused"
    tell(edge, one)
    await written(core, 1)
    assert core.api.documents[document].status["routes"][0]["state"] == "Accepted", "mended is news, too"


async def test_definitions_that_do_not_keep_routes_are_not_written_again_and_again(core):
    """Helm upgrades no definitions: the API server prunes what they do not know."""
    one = put(core)
    edge = core.served()
    tell(edge, one)
    await written(core)
    there = core.api.documents[(EDGE_NODES, "", "edge-1")]
    pruned = {key: value for key, value in there.status.items() if key != "routes"}
    kept = type(there)(version="99", generation=1, status=pruned, head=there.head)
    core.api.documents[(EDGE_NODES, "", "edge-1")] = kept
    core.hub.documents.edge_node_observed("edge-1", kept, {}, core.now)
    writes = core.api.writes
    await written(core)
    assert core.api.writes == writes
