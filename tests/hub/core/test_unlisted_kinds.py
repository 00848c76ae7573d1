"""A kind that may not be listed for a while: nothing is deleted, the status says why, and nothing of that stays."""

from typing import Any

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, KINDS, Core
from tests.support.hubs.live import CONFIG_MAP, POD, SECRET

from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.listed import EDGE_NODES, INPUTS
from fairlead_hub.io.cluster.status_writer import StatusWriter
from fairlead_hub.status.object_sync_status import COLLECTIONS

RULE = (
    {"apiVersion": "v1", "kind": "Pod", "select": "bound"},
    {"apiVersion": "v1", "kind": "Secret", "select": "referenced"},
)


async def wait(core: Core, seconds: int) -> None:
    for _ in range(seconds):
        core.now += 1
        core.hub.heartbeat(core.now)
        await core.flush()


def restarted(before: Core) -> Core:
    """Another hub after the first: it may list neither Pods nor Secrets."""
    core = Core("edge-1", listed=False)
    core.api = before.api
    core._writer = StatusWriter(
        core.hub.documents, core.api, clock=lambda: core.now, in_flight=4, fence=lambda: core.hub.fence,
        may_write=lambda: True, on_fenced=core.fenced.append,
    )  # fmt: skip
    core.rule(*RULE)
    for name in INPUTS:
        core.hub.cluster.input_synced(name)
    for kind in KINDS:
        if kind in (POD, SECRET):
            core.hub.cluster.kind_frozen(kind.group_kind, "403")
        else:
            core.hub.cluster.kind_synced(kind.group_kind)
    for document, observed in core.api.documents.items():
        if document[0] in COLLECTIONS:
            core.hub.documents.observed(document, "edge-1", observed)
    for collection in (*COLLECTIONS, EDGE_NODES):
        core.hub.documents.listed(collection, core.now)
    core.settle()
    return core


def said_of(core: Core, one: LiveObject) -> dict[str, Any]:
    """The status of its ObjectSync, which is there."""
    found = core.status(one)
    assert found is not None
    return found


@pytest.mark.parametrize("order", [(SECRET, POD), (POD, SECRET)], ids=["secret first", "pod first"])
@pytest.mark.parametrize("between", [0, 1, 5])
@pytest.mark.parametrize("unlisted", [0, 40], ids=["for a moment", "for long"])
@pytest.mark.parametrize("restart", [True, False], ids=["restart", "same hub"])
async def test_the_status_says_synced_again_when_the_right_is_back(order, between, unlisted, restart):
    """Whichever kind is listed first, and however long after it the other one."""
    core = Core("edge-1").rule(*RULE)
    pod = core.put("p", POD, spec={"nodeName": "edge-1", "volumes": [{"secret": {"secretName": "a"}}]})
    secret = core.put("a", SECRET)
    edge = core.opened("edge-1", pod, secret)
    await wait(core, 5)
    assert said_of(core, secret)["state"] == "Synced"
    if restart:
        core = restarted(core)
        edge = core.opened("edge-1", pod, secret)
        await wait(core, unlisted)
        if unlisted:
            said = said_of(core, secret)
            assert (said["state"], said["reason"]) == ("Deleting", "Kept")
            assert said["conditions"][0]["message"] == "Secret cannot be listed: 403"
    else:
        for kind in (POD, SECRET):
            core.hub.cluster.kind_unsynced(kind.group_kind)
            core.hub.cluster.kind_frozen(kind.group_kind, "403")
        await wait(core, unlisted)
    for kind in order:
        core.hub.cluster.put_object(pod if kind is POD else secret, core.now)
        core.settle()
        core.hub.cluster.kind_synced(kind.group_kind)
        core.settle()
        await wait(core, between)
    await wait(core, 10)
    for one in (pod, secret):
        said = said_of(core, one)
        assert (said["state"], said["reason"]) == ("Synced", "")
    assert edge.sent() == [], "and nothing was deleted"


async def test_the_status_tells_the_reason_that_holds_now():
    """Kept for another reason than before: the status says so after the next comparison."""
    core = Core("edge-1", listed=False).rule(CONFIG_MAPS)
    one = core.put("a")
    for collection in (*COLLECTIONS, EDGE_NODES):
        core.hub.documents.listed(collection, core.now)
    core.list_all()
    edge = core.served()
    await wait(core, 5)
    core.hub.cluster.kind_frozen(CONFIG_MAP.group_kind, "403")
    core.remove(one)
    edge.sent()
    await wait(core, 5)
    assert said_of(core, one)["conditions"][0]["message"] == "ConfigMap cannot be listed: 403"
    core.hub.cluster.kind_frozen(CONFIG_MAP.group_kind, "404")
    core.hub.open_sessions.compare_all()
    assert edge.sent() == []
    await wait(core, 5)
    assert said_of(core, one)["conditions"][0]["message"] == "ConfigMap cannot be listed: 404"
