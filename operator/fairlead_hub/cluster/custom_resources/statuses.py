"""What the hub writes into custom resources: their status, and the records it keeps.

These models are never used for reading: ``edge_node`` and ``object_sync`` read the fields they need and tolerate
manual edits.  The models define the schemas and the descriptions that ``kubectl explain`` prints.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field
from pydantic.alias_generators import to_camel

_ATOMIC: dict[str, Any] = {"x-kubernetes-map-type": "atomic"}
_IMMUTABLE: dict[str, Any] = {
    "rule": "self == oldSelf",
    "message": "spec names the object and the node and is immutable; delete the record instead",
}
_INT64: dict[str, Any] = {"format": "int64"}
_TIME: dict[str, Any] = {"format": "date-time"}
_TIME_OR_NONE: dict[str, Any] = {**_TIME, "nullable": True}
_NONE: dict[str, Any] = {"nullable": True}
FENCE = "Fencing number of the hub that wrote this. A hub with a lower number must not overwrite it."


def _keyed(key: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class StatusModel(pydantic.BaseModel):
    """Unset fields are left out."""

    model_config = pydantic.ConfigDict(alias_generator=to_camel, extra="forbid")


class ResourceStatus(StatusModel):
    model_config = pydantic.ConfigDict(json_schema_extra=_ATOMIC)


class ConditionStatus(StatusModel):
    type: str = Field(description="Type of the condition.", max_length=316)
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: str | None = Field(default=None, description="Reason in CamelCase, for programs.", max_length=1024)
    message: str | None = Field(default=None, description="Message for people. May be empty.", max_length=32768)
    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="The generation of the object that was judged.", json_schema_extra=_INT64
    )
    last_transition_time: str = Field(description="When status last changed.", json_schema_extra=_TIME)


Conditions = Annotated[
    list[ConditionStatus] | None,
    Field(
        default=None,
        max_length=16,
        description="The current conditions, each with a reason for programs and a message for people.",
        json_schema_extra=_keyed("type"),
    ),
]
ObservedGeneration = Annotated[
    int | None,
    Field(default=None, description="The generation of the object that was judged.", json_schema_extra=_INT64),
]


class LastReadable(StatusModel):
    generation: int | None = Field(
        default=None, description="The generation it was read in; 0 if unknown.", json_schema_extra=_INT64
    )
    spec: str | None = Field(
        default=None, max_length=393216, description="The spec as JSON text; empty if it is too large to keep, or"
        " unknown."
    )


class SyncRuleStatus(ResourceStatus):
    observed_generation: ObservedGeneration
    matched_nodes: int | None = Field(default=None, description="Edge nodes it selects.")
    matched_objects: int | None = Field(default=None, description="Number of objects it selects, on any node.")
    message: str | None = Field(
        default=None,
        description="What is wrong with the rule and its effect meanwhile; empty if nothing is wrong.",
    )
    last_readable: LastReadable | None = Field(
        default=None,
        description=(
            "The last readable spec. It stays in force while the rule cannot be read, including after a restart of the"
            " hub."
        ),
        json_schema_extra=_NONE,
    )
    unlisted_kinds: list[str] | None = Field(
        default=None,
        description="Kinds or versions that cannot be listed, and why. Nodes keep the objects they hold of these.",
    )
    conditions: Conditions


class RouteMistake(StatusModel):
    route: str | None = Field(default=None, description="Name of the route.")
    message: str | None = Field(default=None, description="What is wrong.")
    line: int | None = Field(default=None, description="From 1.")
    column: int | None = Field(default=None, description="From 1.")
    end_column: int | None = Field(default=None, description="End column, exclusive.")


class FailingNode(StatusModel):
    node: str = Field(description="The edge node.")
    state: Literal["Refused", "Lagging"] = Field(
        description=(
            "Refused: some routes are not in force on the node. Lagging: it does not run the newest version yet, or"
            " has not"
            " reported it."
        )
    )
    message: str | None = Field(default=None, description="Why it lags.")
    errors: list[RouteMistake] | None = Field(
        default=None, max_length=3, description="The first refused routes, and why."
    )


class EdgeRoutesStatus(ResourceStatus):
    observed_generation: ObservedGeneration
    matched_nodes: int | None = Field(default=None, description="Edge nodes it selects.")
    accepted_nodes: int | None = Field(default=None, description="Number of nodes that accepted all routes.")
    refused_nodes: int | None = Field(
        default=None, description="Number of nodes that refuse some routes; the other routes run there."
    )
    lagging_nodes: int | None = Field(
        default=None, description="Number of nodes that do not run the newest version yet, or have not reported it."
    )
    message: str | None = Field(
        default=None,
        description="Errors, warnings and lagging nodes; empty if there are none.",
    )
    failing_nodes: list[FailingNode] | None = Field(
        default=None,
        max_length=50,
        description=(
            "The first nodes that refuse some routes, then the first that lag, by name. The full result of a node is"
            " in its EdgeNode (status.routes)."
        ),
        json_schema_extra=_keyed("node"),
    )
    conditions: Conditions


class ObjectSyncSpec(StatusModel):
    model_config = pydantic.ConfigDict(json_schema_extra={**_ATOMIC, "x-kubernetes-validations": [_IMMUTABLE]})

    node_name: str = Field(min_length=1, max_length=253, description="The edge node, named as its Node.")
    object_api_version: str = Field(
        alias="objectAPIVersion", min_length=1, max_length=253, description="Group and version of the object."
    )
    object_kind: str = Field(min_length=1, max_length=63, description="Kind of the object.")
    object_name: str = Field(
        min_length=1, max_length=253, description="Name of the object, in this record's namespace if it has one."
    )
    object_uid: str = Field(
        alias="objectUID",
        min_length=1,
        max_length=128,
        description="UID of the object. A later object with the same name has its own record.",
    )


class ObjectSyncStatus(ResourceStatus):
    object_resource_version: str | None = Field(
        default=None,
        max_length=128,
        description="The version the edge last acknowledged as durable; empty if there is none yet.",
    )
    object_digest: str | None = Field(default=None, max_length=64, description="SHA-256 of the content the edge holds.")
    wanted_resource_version: str | None = Field(
        default=None,
        max_length=128,
        description=(
            "The version of the wanted content when state was written; empty if the object is no longer"
            " wanted. In state Synced it equals the held version: content is compared, so a change of status alone"
            " changes"
            " neither."
        ),
    )
    state: Literal["Synced", "Pending", "Behind", "Parked", "Deleting"] | None = Field(
        default=None,
        description=(
            "Synced: the node holds the wanted content. Pending: delivery is under way. Behind: the node is away and"
            " the wanted"
            " version is newer than the held one. Parked: given up for now. Deleting: the node is to delete it."
        ),
    )
    reason: str | None = Field(
        default=None, max_length=1024, description="Why it is not Synced, for programs. Also set if the object is"
        " paused."
    )
    retries: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Failed sends since it was last parked or acknowledged."
    )
    next_retry_time: str | None = Field(
        default=None, description="When a parked object is retried.", json_schema_extra=_TIME_OR_NONE
    )
    last_ack_time: str | None = Field(
        default=None, description="When the node last acknowledged it as durable.", json_schema_extra=_TIME_OR_NONE
    )
    fence: Annotated[int, Field(ge=0)] | None = Field(default=None, description=FENCE, json_schema_extra=_INT64)
    conditions: Conditions


class QueueStatusField(StatusModel):
    priority: int | None = Field(default=None, description="Priority; 0 is sent first.")
    length: int | None = Field(default=None, description="Messages.")
    bytes: int | None = Field(default=None, description="Size of the messages on disk, in"
    " bytes.", json_schema_extra=_INT64)
    oldest_age_seconds: int | None = Field(default=None, description="Age of the oldest message, in seconds.")
    stalled_seconds: int | None = Field(
        default=None,
        description="How long no message was accepted although the node was connected. Absent while messages are"
        " accepted.",
    )
    stalled_by: str | None = Field(default=None, description="Why the queue is stalled, from the last answer to the"
    " node.")


class NodeIdentityStatus(StatusModel):
    node_uid: str | None = Field(default=None, alias="nodeUID", description="UID of the Node for which its"
    " certificates were accepted.")
    issued: str | None = Field(default=None, description="Issue time of the newest certificate that was used.")
    expires: str | None = Field(default=None, description="When the newest certificate expires, whether used yet or"
    " not.")
    renewal: str | None = Field(
        default=None, max_length=2048, description="Why the last renewal failed. Empty if it succeeded."
    )
    held: str | None = Field(
        default=None,
        description=(
            "Value of annotation fairlead.dev/approve-identity that approves a waiting certificate: the UID of a"
            " recreated"
            " Node, or another claim of the node. Empty if nothing waits."
        ),
    )
    state: Literal["Valid", "Held", "Revoked", "Expired"] | None = Field(
        default=None, description="State of the newest certificate when this was written."
    )
    serial: str | None = Field(
        default=None, max_length=64, description="Serial number of the newest certificate that was used, in"
        " hexadecimal."
    )
    issuer: str | None = Field(default=None, max_length=253, description="Common name of the authority that signed it.")
    former_issued: str | None = Field(
        default=None,
        alias="formerIssued",
        description="Issue time of the newest certificate used with an earlier Node of this name. That one and older"
        " ones are held.",
    )


class DeletionGuardStatus(StatusModel):
    id: str | None = Field(
        default=None, description="Annotation fairlead.dev/approve-deletions with this id approves the deletions."
    )
    count: int | None = Field(default=None, description="Number of deletions that wait.")
    since: str | None = Field(default=None, description="When they were stopped.", json_schema_extra=_TIME)
    approved: bool | None = Field(default=None, description="The deletions were approved and are not all done yet.")


class NodeRoutesStatus(StatusModel):
    name: str = Field(description="The EdgeRoutes object.")
    uid: str | None = Field(default=None, description="UID of the EdgeRoutes object.")
    observed_generation: int | None = Field(
        default=None,
        description="The generation that the node evaluated. Absent while it has evaluated only an older version.",
        json_schema_extra=_INT64,
    )
    resource_version: str | None = Field(default=None, description="The version that the node evaluated.")
    state: Literal["Accepted", "Refused", "Lagging"] | None = Field(
        default=None,
        description=(
            "Accepted: all routes are in force. Refused: those in errors are not. Lagging: the node does not run the"
            " newest version yet, or has not reported it; the other fields describe an older version."
        ),
    )
    message: str | None = Field(default=None, description="Why it lags.")
    accepted_routes: list[str] | None = Field(default=None, description="Names of the first 128 routes in force.")
    errors: list[RouteMistake] | None = Field(default=None, description="The first 32 routes that are not in force,"
    " and why.")
    warnings: list[RouteMistake] | None = Field(
        default=None, description="The first 32 warnings: accepted, but probably not intended."
    )


class ToTableStatus(StatusModel):
    priority: int | None = Field(default=None, description="Priority; 0 is sent first. 2000000000 stands for routes"
    " without one.")
    measured: int | None = Field(
        default=None,
        description="Messages that were followed to their table since the agent started.",
        json_schema_extra=_INT64,
    )
    window: int | None = Field(default=None, description="Number of most recent messages that the times are computed"
    " from.")
    p50_seconds: float | None = Field(
        default=None, alias="p50Seconds", description="Median time from acceptance on the node to the table, in"
        " seconds."
    )
    p95_seconds: float | None = Field(default=None, alias="p95Seconds", description="95th percentile, in seconds.")
    as_of: str | None = Field(
        default=None, description="When the hub received the newest of these measurements.", json_schema_extra=_TIME
    )


class EdgeNodeStatus(ResourceStatus):
    connected: bool | None = Field(default=None, description="Whether the node has a session with the hub.")
    last_contact_time: str | None = Field(
        default=None,
        description="When the hub last heard from the node, when this was written.",
        json_schema_extra=_TIME_OR_NONE,
    )
    hub: str | None = Field(default=None, description="The hub that wrote this.")
    store_epoch: str | None = Field(
        default=None, description="Random number drawn when the edge last opened its store."
    )
    agent_version: str | None = Field(default=None, description="Version of the agent on the node.")
    objects_wanted: int | None = Field(default=None, description="Objects the node should hold.")
    objects_held: int | None = Field(default=None, description="Objects the node holds.")
    objects_parked: int | None = Field(
        default=None, description="Objects given up for now. See the ObjectSyncs in state Parked."
    )
    queued_messages: int | None = Field(default=None, description="Messages on the node that wait to be sent.")
    dead_letters: int | None = Field(default=None, description="Messages on the node that no endpoint accepted.")
    paused: str | None = Field(
        default=None,
        description="Why nothing is sent to this node (annotation fairlead.dev/paused); empty if it is not paused.",
    )
    identity: NodeIdentityStatus | None = Field(
        default=None,
        description="The Node object its certificates were used with. Kept when the Node is deleted.",
        json_schema_extra=_NONE,
    )
    deletion_guard: DeletionGuardStatus | None = Field(
        default=None,
        description="Set while deletions on this node are stopped because too many were due at once.",
        json_schema_extra=_NONE,
    )
    store_bytes: int | None = Field(
        default=None, description="Size of those messages on the node's disk, in bytes.", json_schema_extra=_INT64
    )
    queues: list[QueueStatusField] | None = Field(
        default=None, max_length=64, description="Waiting messages by priority."
    )
    routes: list[NodeRoutesStatus] | None = Field(
        default=None,
        max_length=64,
        description=(
            "Result of each EdgeRoutes object that selects the node. While the node is away, its last report."
        ),
        json_schema_extra=_keyed("name"),
    )
    to_table: list[ToTableStatus] | None = Field(
        default=None,
        max_length=16,
        description=(
            "How long messages take from this node to a table, by priority and by the node's clock. While the node is"
            " away,"
            " its last report. Written along with other changes; by itself only if a time doubled or halved."
        ),
    )
    granted_topics: list[str] | None = Field(
        default=None, description="Topics this node may publish to: all that its EdgeRoutes have ever named."
    )
    obeyed_fence: int | None = Field(
        default=None,
        description=(
            "Set if the node is refused because it reports that it obeyed a hub with this fencing number and this"
            " hub's is"
            " lower. fairlead node approve lets it follow this hub immediately."
        ),
        json_schema_extra=_INT64 | _NONE,
    )
    fence: int | None = Field(default=None, description=FENCE, json_schema_extra=_INT64)
    conditions: Conditions
