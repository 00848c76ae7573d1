"""Records kept true to the sessions, also where the API says something that no hub wrote."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, FENCE, Core

from fairlead_hub.cluster.content import ServedKind
from fairlead_hub.status import status_cache


def test_records_listed_after_the_nodes_are_collected_at_once():
    """A Node deleted while no hub ran: its records go when both lists are in, not at the next slow pass."""
    core = Core("edge-1")
    name = ("objectsyncs", "shop", "gone.uid-1")
    core.hub.status_cache.observe(name, "gone", status_cache.Observed(version="1", generation=1, status={}, head={}))
    core.hub.documents.listed("objectsyncs", core.now)
    assert isinstance(core.hub.status_cache.pending(name), status_cache.Removal)


@pytest.mark.parametrize("fence", [9_999_999_999_999_999, 2**53, FENCE + 10**6])
async def test_a_record_under_a_fence_that_cannot_be_is_written_over(fence):
    """Although it is right otherwise; records of others do not wait for it, and the Lease is not raised above it."""
    core = Core("edge-1").rule(CONFIG_MAPS)
    edge = core.connect()
    first, second = core.put("a"), core.put("b")
    edge.ack(*edge.sent())
    await core.report()
    record = ("objectsyncs", "shop", f"edge-1.{first.uid}")
    account = ("edgenodes", "", "edge-1")
    for name in (record, account):
        there = core.api.documents[name]
        edited = status_cache.Observed(
            version=f"9{there.version}", generation=1, status={**there.status, "fence": fence}, head=there.head
        )
        core.api.documents[name] = edited
        core.now += 60
        if name == account:
            core.hub.documents.edge_node_observed("edge-1", edited, {}, core.now)
        else:
            core.hub.documents.observed(name, "edge-1", edited)
            core.hub.sweep(core.now)
    core.put("b", version="2", data={"k": "2"})
    edge.ack(*edge.sent())
    core.hub.report(core.now)
    await core.flush()
    assert core.api.documents[record].fence == core.api.documents[account].fence == FENCE
    status = core.status(second)
    assert status is not None and status["objectResourceVersion"] == "2"
    assert core.fenced == []


async def test_records_changed_by_the_thousand_are_compared_once(monkeypatch):
    """All ObjectSyncs of a node are deleted by hand: that is one look at it, not one for each."""
    core = Core("edge-1").rule(CONFIG_MAPS)
    for number in range(20):
        core.put(f"c{number}")
    core.served()
    await core.flush()
    looks = []
    compared = core.hub.object_syncs.compared

    def counted(*given):
        looks.append(given)
        return compared(*given)

    monkeypatch.setattr(core.hub.object_syncs, "compared", counted)
    for name in core.names():
        del core.api.documents[name]
        core.hub.documents.vanished(name, "edge-1")
    core.hub.sweep(core.now)
    core.hub.sweep(core.now)
    await core.flush()
    assert len(looks) == 1 and len(core.names()) == 20


def test_an_event_that_is_parked_makes_no_event():
    """It would be delivered and parked like the first, for ever; what becomes of other kinds is reported."""
    core = Core("edge-1")
    event = ServedKind(group="", version="v1", kind="Event", plural="events", namespaced=True)
    core.hub.cluster.know_kind(event)
    core.hub.cluster.kind_synced(event.group_kind)
    core.rule(CONFIG_MAPS, {"apiVersion": "v1", "kind": "Event"})
    core.put("a")
    core.put("e", event)
    edge = core.connect()
    for header in edge.sent():
        edge.nack(header)
    core.hub.report(core.now, last=True)
    said = [each.regarding.name for each in core.take_kube_events() if each.reason == "Parked"]
    assert said == ["edge-1.uid-a"]
