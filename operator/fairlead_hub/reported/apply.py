"""What is written of a report: server-side apply of ``.status`` alone, under a field manager for each node.

The version and the UID it is written for are in the request.  So a status is never written on an object that was made
anew; and an older one never over a newer one: every version is read while the session that reported is the node's
newest, and a write of a session, or a hub, that is not any more meets a version that has changed.
But for one: an apply that changes nothing changes no version, so a write without an answer may come after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead_hub.cluster.content import LiveObject
from fairlead_wire import message

CONTENT_TYPE = "application/apply-patch+yaml"
OTHER_NODES = '"fairlead-edge-'
NOT_TYPED = "failed to create typed patch object"
FIELDS_TOLD_MAX = 5


def body(live: LiveObject, version: str, status: dict[str, Any]) -> dict[str, Any]:
    """The request."""
    metadata = {"name": live.resource.name, "uid": live.uid, "resourceVersion": version}
    if live.resource.namespace:
        metadata["namespace"] = live.resource.namespace
    return {
        "apiVersion": live.resource.api_version,
        "kind": live.kind.kind,
        "metadata": metadata,
        "status": status,
    }


def parameters(node: str, *, force: bool) -> dict[str, str]:
    """Of the request's query."""
    found = {"fieldManager": message.field_manager(node), "fieldValidation": "Strict"}
    return {**found, "force": "true"} if force else found


def may_force(force: message.Force, conflicts: Sequence[str]) -> bool:
    """A merge patch wins over what was written in the cluster, as it would there; not over another node's word."""
    return force == "all" or (force == "cluster" and not any(OTHER_NODES in each for each in conflicts))


def is_of_another_type(status: int, text: str) -> bool:
    """The API server answers 500 to an apply whose fields are not those of the kind's schema; once more is no use."""
    return status == 500 and NOT_TYPED in text


def conflict_text(conflicts: Sequence[str]) -> str:
    """For people; ``conflicts`` as the API server words them."""
    told = "; ".join(conflicts[:FIELDS_TOLD_MAX]) + ("; …" if len(conflicts) > FIELDS_TOLD_MAX else "")
    return f"others own what was reported: {told}. Leave these fields out, or apply with force=true"
