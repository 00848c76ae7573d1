"""What the hub writes has a place in the definitions: a field they do not know is pruned in silence."""

from __future__ import annotations

from msgspec.structs import replace
from tests.hub.status.test_edge_node import ACCOUNT
from tests.hub.status.test_node_routes import error, routes, said

from fairlead_hub.cluster.custom_resources import statuses
from fairlead_hub.delivery.deletion_guard import DeletionGuard, Tripped
from fairlead_hub.settings import DeletionGuardSettings as Limits
from fairlead_hub.status import edge_node, node_routes, object_sync
from fairlead_hub.status.node_routes import REFUSED
from fairlead_wire import message


def test_an_edge_nodes_status_has_a_place() -> None:
    """With everything that can be said of a node."""
    guard = DeletionGuard("edge-1", Limits(removals_max=1), news=set(), text=str)
    guard.tripped = Tripped(id="0123abcd", count=3, since="2026-11-20T00:00:00Z")
    queue = message.QueueStatus(
        endpoint="iothub", priority=0, length=3, bytes=9, oldest_age_seconds=1.0, stalled_seconds=5.0, stalled_by="busy"
    )
    account = replace(
        ACCOUNT,
        guard=guard,
        paused="why",
        identity={"nodeUID": "u", "issued": "t", "expires": "t", "held": ""},
        edge=message.EdgeStatus(held=1, queues=[queue]),
        routes=(node_routes.row_of(routes(), said(error(), warnings=[error()]), REFUSED),),
    )
    statuses.EdgeNodeStatus.model_validate(edge_node.status(account, [], 1, "2026-11-20T00:00:00Z", 4))


def test_a_records_status_has_a_place() -> None:
    """And its spec."""
    record = object_sync.Record(
        node="edge-1", api_version="v1", kind="ConfigMap", namespace="shop", object_name="a", uid="u", version="1",
        digest="d", wanted_version="1", state="Synced",
    )  # fmt: skip
    statuses.ObjectSyncStatus.model_validate(object_sync.status(record, [], 1, "2026-11-20T00:00:00Z", 4))
    statuses.ObjectSyncSpec.model_validate(object_sync.head(record)["spec"])
