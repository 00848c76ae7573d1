"""Statuses of the hub's own documents, edited arbitrarily: none stops the hub, and all are corrected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.hubs.hub_core import CONFIG_MAPS, FENCE, Core

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.status import status_cache
from fairlead_hub.status.object_sync_status import COLLECTIONS

ODD: st.SearchStrategy[object] = st.sampled_from(
    [None, True, -1, 0, 2**31, 2**53, 10**16, 1e300, "", "x", "-5", "²", "1970-01-01T00:00:00Z", [], {}]
)
ANYTHING = st.recursive(
    ODD,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
KEYS = (
    "connected", "lastContactTime", "hub", "storeEpoch", "agentVersion", "objectsWanted", "objectsHeld",
    "objectsParked", "queues", "grantedTopics", "paused", "deletionGuard",
    "routes", "identity", "fence", "conditions", "state", "reason",
    "retries", "objectResourceVersion", "wantedResourceVersion", "objectDigest", "lastAckTime", "nextRetryTime",
)  # fmt: skip
STATUS = st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=8)


async def told(core: Core) -> None:
    """EdgeNode is correct half a minute later."""
    for _ in range(3):
        core.hub.report(core.now)
        core.now += 15
    await core.flush()


async def edited(account: dict[str, Any], record: dict[str, Any], *, connected: bool) -> None:
    core = Core("edge-1")
    core.rule(CONFIG_MAPS)
    one = core.put("a")
    edge = core.connect()
    edge.ack(*edge.sent())
    await told(core)
    if not connected:
        edge.leave()
        await told(core)
    names = {(EDGE_NODES, "", "edge-1"): account, (COLLECTIONS[0], "shop", f"edge-1.{one.uid}"): record}
    for number, (name, status) in enumerate(names.items()):
        there = core.api.documents[name]
        core.api.documents[name] = found = status_cache.Observed(
            version=str(1000 + number), generation=1, status={**there.status, **status}, head=there.head
        )
        if name[0] == EDGE_NODES:
            core.hub.documents.edge_node_observed("edge-1", found, {}, core.now)
        else:
            core.hub.documents.observed(name, "edge-1", found)
    for _ in range(3):
        core.now += 200
        core.hub.reconcile(core.now)
        core.hub.sweep(core.now)
        core.hub.report(core.now)
        await core.flush()
    if connected:
        right = core.status(one)
        assert right is not None and right["state"] == "Synced"
        assert core.api.documents[EDGE_NODES, "", "edge-1"].status["objectsHeld"] == 1
    fences = {found.fence for found in core.api.documents.values()}
    assert all(fence <= FENCE + 100_000 for fence in fences), "what cannot be is written over"


@pytest.mark.slow
@example({}, {"state": []}, True)
@example({}, {"state": {}}, False)
@example({}, {"fence": 2**31}, False)
@given(STATUS, STATUS, st.booleans())
def test_no_edited_status_ends_the_hub(account: dict[str, Any], record: dict[str, Any], connected: bool) -> None:
    """And it is corrected if the node can be asked."""
    asyncio.run(edited(account, record, connected=connected))
