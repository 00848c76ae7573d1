"""Everything the pages show, of one moment."""

import pytest
from tests.support.hubs.console import fleet, surveyed
from tests.support.hubs.hub_core import Core

from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.console import snapshot


def test_a_fleet_in_every_state():
    """Sums agree with the rows."""
    found, slices = surveyed(fleet(200))
    assert len(found.lines) == 200 == sum(found.states.values()) and list(found.lines) == sorted(found.lines)
    assert set(found.states) == {"sync", "behind", "parked", "away", "never", "paused"}
    assert found.parked == len(found.parked_objects) == sum(group.objects for group in found.groups) > 0
    assert found.in_flight == found.pending > 0
    assert [queue.priority for queue in found.from_nodes] == [0, 5, 9]
    assert found.from_nodes[2].stalled > 0 and "quota" in found.from_nodes[2].stalled_by
    assert slices == 200 // snapshot.SLICE_NODES, "the hub has its turn after every few nodes"


@pytest.mark.slow
def test_causes_are_told_apart():
    """By code and kind, the most frequent first, with one reason as example."""
    found, _ = surveyed(fleet(300))
    assert {group.code for group in found.groups} == {"store_full", "too_large"}
    assert found.groups[0].objects >= found.groups[1].objects
    assert all(group.kind == "configmaps" and group.example for group in found.groups)


@pytest.mark.slow
def test_lists_are_bounded(monkeypatch):
    """Groups count on."""
    monkeypatch.setattr(snapshot, "PARKED_MAX", 2)
    monkeypatch.setattr(snapshot, "GROUPS_MAX", 1)
    found, _ = surveyed(fleet(300))
    assert len(found.parked_objects) == 2 and sum(group.objects for group in found.groups) == found.parked
    assert len(found.groups) == 2 and "other" in {group.code for group in found.groups}


def test_a_node_that_vanishes_meanwhile_is_left_out():
    """The hub goes on between two slices."""
    core = fleet(60)
    survey = snapshot.survey(core.hub.view, WatchHealth({"nodes"}), core.now)
    next(survey)
    last = sorted(core.hub.placement.rules.nodes)[-1]
    core.hub.cluster.drop_node(last, core.now)
    while True:
        try:
            next(survey)
        except StopIteration as end:
            assert last not in end.value.lines and len(end.value.lines) == 59
            return


def test_what_waits_to_be_sent_by_priority():
    """A window that is full leaves the rest queued."""
    core = Core("edge-1").rule({"apiVersion": "v1", "kind": "ConfigMap", "priority": 7})
    for at in range(300):
        core.put(f"c{at}")
    core.connect().sent()
    found, _ = surveyed(core)
    [queue] = found.to_nodes
    assert (queue.priority, queue.nodes) == (7, 1) and queue.length + found.in_flight == 300


def test_what_is_wrong_with_its_sources_is_said():
    """Collections that are not followed, and rules that cannot be read."""
    core = Core("edge-1")
    freshness = WatchHealth({"nodes"})
    freshness.stale("nodes", "answered 503", core.now)
    found, _ = surveyed(core, freshness)
    [notice] = found.notices
    assert "nodes are not followed since" in notice and "503" in notice


def test_a_thousand_notices_are_twenty_and_a_number():
    """Every page and every frame has them."""
    core = Core("edge-1")
    collections = {f"collection-{at}" for at in range(1000)}
    freshness = WatchHealth(collections)
    for collection in collections:
        freshness.stale(collection, "answered 503", core.now)
    found, _ = surveyed(core, freshness)
    assert len(found.notices) == snapshot.NOTICES_MAX + 1 and found.notices[-1] == "and 980 more of the kind"
