"""Where every node stands, as rows for people and programs."""

import msgspec
import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import ROUTES

from fairlead_hub import view
from fairlead_hub.cluster import sync_rule
from fairlead_hub.status import status_cache, to_table
from fairlead_wire import message


@pytest.fixture
def core():
    return Core("edge-1").rule(CONFIG_MAPS)


def test_every_node_is_one_row(core):
    """Also one that never connected; in the order of their names."""
    core.node("edge-0")
    core.connect()
    assert [(row["node"], row["connected"]) for row in core.hub.view.nodes(0.0)] == [
        ("edge-0", False),
        ("edge-1", True),
    ]


def test_a_row_counts_what_is_wanted_held_and_on_its_way(core):
    """And how long the oldest has been waiting."""
    core.put("a")
    core.put("b")
    edge = core.connect()
    first, _ = edge.sent()
    core.now = 4.0
    edge.ack(first)
    [row] = core.hub.view.nodes(core.now)
    assert (row["wanted"], row["held"], row["pending"], row["inFlight"], row["lagSeconds"]) == (2, 1, 1, 1, 4.0)
    assert row["waitingFor"] == ""


def test_one_node_in_detail_names_every_key(core):
    """What is pending with its step, what is parked with its reason, what is kept with the doubt."""
    core.put("a")
    gone = core.put("old")
    edge = core.connect()
    first, second = edge.sent()
    edge.nack(first, code="too_large", reason="over the limit")
    edge.ack(second)
    core.hub.cluster.kind_frozen(("", "ConfigMap"), "403 Forbidden")
    core.remove(gone)
    edge.sent()
    core.now = 1.5
    core.put("new")
    found = core.hub.view.node("edge-1", core.now)
    assert found is not None
    [pending] = found["pendingObjects"]
    assert (pending["key"], pending["step"]) == ("configmaps/shop/new", "queued")
    [parked] = found["parkedObjects"]
    assert (parked["code"], parked["reason"], parked["retries"]) == ("too_large", "over the limit", 0)
    assert parked["nextRetrySeconds"] == 298.5
    [kept] = found["keptObjects"]
    assert kept["key"] == "configmaps/shop/old" and "403 Forbidden" in kept["reason"]
    assert (found["kept"], found["keptUnknown"]) == (1, 1) and "403 Forbidden" in found["keptUnknownReason"]
    assert found["grantedTopics"] == ["default/telemetry"]


def test_lists_are_bounded(core):
    """A node with thousands of objects on their way answers with the oldest hundred."""
    for n in range(view.LIST_MAX + 20):
        core.put(f"c{n}")
    core.connect().sent()
    found = core.hub.view.node("edge-1", 0.0)
    assert found is not None
    assert len(found["pendingObjects"]) == view.LIST_MAX
    assert found["pending"] == view.LIST_MAX + 20


def test_what_a_rule_that_cannot_be_read_does_is_listed(core):
    """For the status of everything."""
    core.hub.cluster.break_rule(sync_rule.unreadable({"metadata": {"name": "r"}}, "spec: why"), core.now)
    core.put("main", ROUTES, namespace="", spec={"nodeSelector": ["x"]})
    rule, routes = core.hub.view.unreadable()
    assert (rule["kind"], rule["name"], rule["reason"], rule["nodes"]) == ("SyncRule", "r", "spec: why", 1)
    assert "stays in force" in rule["consequence"] and "sent to no node" in routes["consequence"]
    [row] = core.hub.view.nodes(0.0)
    assert "SyncRule r: spec: why" in row["rules"]


def test_rules_in_trouble_are_listed_as_their_statuses_tell(core):
    """As without a hub; of what is gone nothing is told."""
    core.put("main", ROUTES, namespace="", spec={})
    for collection, name in (("syncrules", "r"), ("edgeroutes", "main"), ("syncrules", "gone")):
        status = {"unlistedKinds": ["Widget: not served"], "message": ""}
        observed = status_cache.Observed(version="1", generation=1, status=status, head={})
        core.hub.rule_statuses.observed(collection, name, observed)
    found = [(row["kind"], row["name"], row["reason"]) for row in core.hub.view.troubled()]
    assert found == [("SyncRule", "r", "Widget: not served"), ("EdgeRoutes", "main", "Widget: not served")]


def test_a_node_in_detail_says_by_which_policies_its_messages_go_again(core):
    """In the agent's words, bounded; what else it may say under that name is none of them."""

    def shown():
        found = core.hub.view.node("edge-1", 0.0)
        assert found is not None
        return found["delivery"]

    edge = core.connect()
    assert shown() == {}
    edge.sent()
    said = {"upstream": "7 retries" + "x" * 2000, "brokered": "no retries", "other": "y"}
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=0, delivery=said)))
    assert list(shown()) == ["upstream", "brokered"] and shown()["brokered"] == "no retries"
    assert len(shown()["upstream"]) == message.NAME_CHARS_MAX


def test_a_node_in_detail_says_how_long_its_messages_take_to_a_table(core):
    """By priority, and not more of them than there can be."""
    edge = core.opened()
    said = [message.ToTable(priority=each, measured=1, p50_seconds=1.0, p95_seconds=2.0) for each in range(30, 0, -1)]
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=0, to_table=said)))
    found = core.hub.view.node("edge-1", 0.0)
    assert found is not None
    assert [each["priority"] for each in found["toTable"]] == list(range(1, to_table.ROWS_MAX + 1))
    first = found["toTable"][0]
    assert first.pop("asOf")
    assert first == {"priority": 1, "measured": 1, "window": 1, "p50Seconds": 1.0, "p95Seconds": 2.0}
    assert core.hub.view.nodes(0.0)[0]["toTable"] == found["toTable"]
