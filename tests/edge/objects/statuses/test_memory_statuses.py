"""The twin's own ways; its promises are in the conformance suite."""

from __future__ import annotations

import msgspec
from tests.support.edges.held import config_map, put

from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.statuses.patch import StatusPatch
from fairlead_wire import message
from fairlead_wire.objects import digest


async def test_a_disk_that_was_opened_again_goes_on_with_its_numbers() -> None:
    """So that an answer to a report from before settles nothing newer."""
    store = MemoryMetastore()
    await store.apply([put(config_map("a"))], now=0.0)
    rules = msgspec.json.encode([message.StatusRule(rule="r", kind="ConfigMap", allowed=True)])
    await store.statuses.told(rules, digest.content_digest(rules))
    kind = Kind(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)
    for number in range(2):
        asked = StatusPatch(operation="Update", manager="me", status={"n": number})
        await store.statuses.patch(("", "configmaps", "shop", "a"), "v1", kind, asked, 0.0)
        store = store.reopened(1)
    [line] = await store.statuses.lines()
    assert line.sequence == 2
