"""What the hub tells of itself: which events, in which order, how many."""

import msgspec
import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import ROUTES

from fairlead_hub.events import cloud_events
from fairlead_hub.settings import ConsoleSettings
from fairlead_hub.status import edge_node, status_cache
from fairlead_wire import message

MESSAGING = "http://127.0.0.1:9"
"""No process listens there: events are only taken."""


@pytest.fixture
def core():
    return Core("edge-1", "edge-2", messaging_url=MESSAGING).rule(CONFIG_MAPS)


def taken(core):
    """(type, node, data) of all that waits."""
    return [(each.type, each.node, each.data) for each in core.take_cloud_events()]


def types(core):
    return [each[0] for each in taken(core)]


def test_without_a_publisher_nothing_is_kept():
    """No messaging and no console: no events, no errors, no memory."""
    core = Core("edge-1", console=ConsoleSettings(enabled=False))
    core.connect().leave()
    assert core.take_cloud_events() == []
    assert core.hub.cloud_events.dropped == 0


def test_a_node_that_comes_and_goes(core):
    """At once, in order, with what it said of itself."""
    core.connect().leave()
    assert taken(core) == [
        (
            "node.connected",
            "edge-1",
            {"session": 1, "agentVersion": "1.0", "storeEpoch": "7", "objectsHeld": 0},
        ),
        ("node.away", "edge-1", {"reason": "connection_ended"}),
    ]


def test_a_second_machine_under_one_name(core):
    """The stores tell a second machine from one that only dialled again."""
    first = core.connect(store_epoch=7)
    again = core.connect(store_epoch=7)
    core.connect(store_epoch=8)
    first.leave()
    again.leave()
    replaced = [data for type, _, data in taken(core) if type == "node.replaced"]
    assert [each["sameStore"] for each in replaced] == [True, False]
    assert types(core) == [], "the connections that were replaced end without another word"


def test_a_deleted_node_is_away_for_that_reason(core):
    """Not just gone."""
    core.connect()
    core.hub.cluster.drop_node("edge-1", core.now)
    assert taken(core)[-1] == ("node.away", "edge-1", {"reason": "node_deleted"})


def test_a_held_node_is_reported_with_the_reason(core):
    """An annotation says that nothing may be sent to it, and why; and that it is over."""
    seen = status_cache.Observed(version="1", generation=1, status={}, head={})
    for reason in ({"fairlead.dev/paused": "stock taking"}, {}):
        core.hub.documents.edge_node_observed("edge-1", seen, reason, core.now)
    assert [(type, "stock taking" in data["message"]) for type, _, data in taken(core)] == [
        ("node.paused", True),
        ("node.resumed", True),
    ]


def test_an_object_is_parked_and_tried_again(core):
    """Named as its users know it, with the reason of the edge; never with its content."""
    edge = core.connect()
    one = core.put("a", data={"password": "hunter2"})
    edge.nack(*edge.sent(), code="too_large", reason="x" * 5000)
    edge_version = core.put("a", data={"password": "hunter3"}, uid=one.uid)
    edge.ack(*edge.sent())
    events = [each for each in core.take_cloud_events() if each.type.startswith("object.")]
    assert [each.type for each in events] == ["object.parked", "object.unparked"]
    about = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": one.resource.namespace, "name": "a", "uid": one.uid}
    parked = events[0]
    assert parked.data["object"] == about and parked.node == "edge-1" and parked.subject == one.path
    assert (parked.data["reason"], parked.data["retries"], len(parked.data["message"])) == ("too_large", 0, 1024)
    assert events[1].data == {"object": about, "reason": "newer"}
    assert b"hunter" not in msgspec.json.encode(events) and edge_version.uid == one.uid


def status(*errors):
    bad = [
        message.RouteError(route=name, message="unknown function", line=1, column=6, end_column=9) for name in errors
    ]
    routes = {"shops": message.RoutesStatus(uid="u", resource_version="5", accepted=["good"], errors=bad)}
    return msgspec.json.encode(message.EdgeStatus(held=0, routes=routes))


def test_routes_an_edge_refuses_are_reported_once(core):
    """With place and reason; again when the errors are others, not when they are gone."""
    edge = core.opened()
    for errors in [("bad",), ("bad",), ("bad", "worse"), ()]:
        edge.say(message.Status(), status(*errors))
    refused = [(node, data) for type, node, data in taken(core) if type == "routes.refused"]
    assert [(node, data["routes"], data["errorsTotal"]) for node, data in refused] == [
        ("edge-1", "shops", 1),
        ("edge-1", "shops", 2),
    ]
    assert refused[0][1]["errors"] == [{"route": "bad", "message": "unknown function", "line": 1, "column": 6}]


def test_errors_without_end_are_cut(core):
    """The object's status has them all."""
    edge = core.opened()
    edge.say(message.Status(), status(*(f"r{n}" for n in range(100))))
    [data] = [data for type, _, data in taken(core) if type == "routes.refused"]
    assert (len(data["errors"]), data["errorsTotal"]) == (cloud_events.ERRORS_MAX, 100)


def test_routes_the_hub_cannot_read_are_reported_once(core):
    """They concern no node yet; mended and broken again is news."""
    for number, nodes in enumerate([["x"], ["x"], {}, ["x"]]):
        core.put("main", ROUTES, namespace="", spec={"nodeSelector": nodes, "schemaVersion": str(number)})
    refused = [(node, data) for type, node, data in taken(core) if type == "routes.refused"]
    assert [(node, data["routes"]) for node, data in refused] == [("", "main"), ("", "main")]
    assert "spec.nodeSelector" in refused[0][1]["errors"][0]["message"]


def test_refused_messages_are_reported_at_once_and_then_counted(core):
    """A node that goes on sending what is refused fills no topic."""
    refused = message.RefusedItem(index=0, code="topic_not_granted", reason="topic a/b was never named")
    tell = core.hub.cloud_events.messages_refused
    tell("edge-1", [refused, refused], 0.0)
    for second in range(50):
        tell("edge-1", [refused], float(second))
    core.hub.cloud_events.flush(59.0)
    assert taken(core) == [
        ("messages.refused", "edge-1", {"reason": "topic_not_granted", "count": 2, "message": refused.reason})
    ]
    core.hub.cloud_events.flush(60.0)
    assert [data["count"] for _, _, data in taken(core)] == [50]
    core.hub.cloud_events.flush(200.0)
    assert taken(core) == []


def test_a_stalled_queue_is_reported_at_once_and_then_counted(core):
    """The node says it with each account; the topic has it once a minute, EdgeNode the reason."""
    edge = core.opened()
    queue = message.QueueStatus(
        endpoint="iothub", priority=3, length=7, bytes=9, oldest_age_seconds=1.0,
        stalled_seconds=60.0, stalled_by="messaging_unavailable: no room",
    )  # fmt: skip
    for second in range(3):
        core.now = float(second)
        edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=0, queues=[queue])))
    [(type, node, data)] = [each for each in taken(core) if each[0] != "node.connected"]
    assert (type, node) == ("queue.stalled", "edge-1")
    assert (data["priority"], data["length"], data["message"]) == (3, 7, "messaging_unavailable: no room")
    [row] = edge_node._queues(core.hub.node_status.edges["edge-1"])
    assert (row["stalledSeconds"], row["stalledBy"]) == (60, "messaging_unavailable: no room")


def test_nodes_beyond_count_are_reported_early(core):
    """What is counted is bounded too."""
    refused = message.RefusedItem(index=0, code="c", reason="r")
    for n in range(cloud_events.REPEATS_MAX + 1):
        for _ in range(2):
            core.hub.cloud_events.messages_refused(f"n{n}", [refused], 0.0)
    assert taken(core)[-2:] == [
        ("messages.refused", "n0", {"reason": "c", "count": 1, "message": "r"}),
        ("messages.refused", f"n{cloud_events.REPEATS_MAX}", {"reason": "c", "count": 1, "message": "r"}),
    ]


def test_what_finds_no_room_is_dropped_and_counted(core, monkeypatch):
    """Memory is bounded; the first stay, because they are in order."""
    monkeypatch.setattr(cloud_events, "WAITING_MAX", 3)
    for second in range(5):
        core.hub.cloud_events.node_away(f"n{second}", "x", 0.0)
    assert [node for _, node, _ in taken(core)] == ["n0", "n1", "n2"]
    assert core.hub.cloud_events.dropped == 2


def test_a_node_that_does_not_return_after_a_restart_is_away(core):
    """The hub that knew it connected is gone; no other knows."""
    core.connect()
    core.hub.report(core.now, last=True)
    written = core.hub.status_cache.pending(("edgenodes", "", "edge-1"))
    after = Core("edge-1", messaging_url=MESSAGING)
    after.hub.cloud_events.hub_started(4, after.now)
    there = status_cache.Observed(version="1", generation=1, status=written.status(None), head={})
    after.hub.documents.edge_node_observed("edge-1", there, {}, after.now)
    for now in (0.0, 31.0, 35.0):
        after.now = now
        after.hub.report(now)
    assert taken(after) == [("hub.started", "", {"fence": 4}), ("node.away", "edge-1", {"reason": "not_returned"})]
