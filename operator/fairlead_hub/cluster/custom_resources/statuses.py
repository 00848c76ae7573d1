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
FENCE = "Fencing number of the hub that wrote this; a hub with a lower number may not overwrite it."


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
    message: str | None = Field(default=None, description="Message for people; may be empty.", max_length=32768)
    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Generation of the object that this condition is about.", json_schema_extra=_INT64
    )
    last_transition_time: str = Field(description="When the condition's status last changed.", json_schema_extra=_TIME)


Conditions = Annotated[
    list[ConditionStatus] | None,
    Field(
        default=None,
        max_length=16,
        description="Current conditions, each with a reason for programs and a message for people.",
        json_schema_extra=_keyed("type"),
    ),
]
ObservedGeneration = Annotated[
    int | None,
    Field(default=None, description="Generation of the object that this status is about.", json_schema_extra=_INT64),
]


class LastReadable(StatusModel):
    generation: int | None = Field(
        default=None, description="Generation of the rule that had this spec; 0 if unknown.", json_schema_extra=_INT64
    )
    spec: str | None = Field(
        default=None,
        max_length=393216,
        description="The spec as JSON text; empty if it is too large to be kept, or unknown.",
    )


class SyncRuleStatus(ResourceStatus):
    observed_generation: ObservedGeneration
    matched_nodes: int | None = Field(default=None, description="Edge nodes it selects.")
    matched_objects: int | None = Field(default=None, description="Objects it selects, for any node.")
    message: str | None = Field(
        default=None,
        description="What is wrong with the rule and what applies meanwhile, in a sentence; empty if nothing is wrong.",
    )
    last_readable: LastReadable | None = Field(
        default=None,
        description=(
            "The last readable spec. It stays in force while the rule cannot be read, even after a restart of the hub."
        ),
        json_schema_extra=_NONE,
    )
    unlisted_kinds: list[str] | None = Field(
        default=None,
        description=(
            "Kinds, or versions of them, that cannot be listed, and why; nodes keep the objects they hold of them."
        ),
    )
    conditions: Conditions


class RouteMistake(StatusModel):
    route: str | None = Field(default=None, description="Name of the route.")
    message: str | None = Field(default=None, description="What is wrong.")
    line: int | None = Field(default=None, description="Line of the mistake, from 1.")
    column: int | None = Field(default=None, description="Column of the mistake, from 1.")
    end_column: int | None = Field(default=None, description="Column where the mistake ends.")


class FailingNode(StatusModel):
    node: str = Field(description="The edge node.")
    state: Literal["Refused", "Lagging"] = Field(
        description=(
            "Refused: some routes are not in force there. Lagging: the node does not run the newest version yet, or has"
            " not reported it."
        )
    )
    message: str | None = Field(default=None, description="Why it lags.")
    errors: list[RouteMistake] | None = Field(
        default=None, max_length=3, description="The first refused routes, and why they are refused."
    )


class EdgeRoutesStatus(ResourceStatus):
    observed_generation: ObservedGeneration
    matched_nodes: int | None = Field(default=None, description="Edge nodes it selects.")
    accepted_nodes: int | None = Field(default=None, description="Number of nodes that accepted all routes.")
    refused_nodes: int | None = Field(
        default=None, description="Number of nodes that refuse some routes; the other routes run there."
    )
    lagging_nodes: int | None = Field(
        default=None, description="Nodes that do not run its newest version yet, or have not reported it."
    )
    message: str | None = Field(
        default=None,
        description="Errors, warnings and lagging nodes, in a sentence; empty if there are none.",
    )
    failing_nodes: list[FailingNode] | None = Field(
        default=None,
        max_length=50,
        description=(
            "The first nodes that refuse some of it, then the first that lag, by name. The result at one node is in its"
            " EdgeNode (status.routes)."
        ),
        json_schema_extra=_keyed("node"),
    )
    conditions: Conditions


class ObjectSyncSpec(StatusModel):
    model_config = pydantic.ConfigDict(json_schema_extra={**_ATOMIC, "x-kubernetes-validations": [_IMMUTABLE]})

    node_name: str = Field(
        min_length=1, max_length=253, description="Name of the edge node, which is the name of its Node."
    )
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
        description="UID of the object; an object created later under the same name has its own record.",
    )


class ObjectSyncStatus(ResourceStatus):
    object_resource_version: str | None = Field(
        default=None,
        max_length=128,
        description="The version that the node last acknowledged as durable; empty if there is none yet.",
    )
    object_digest: str | None = Field(
        default=None, max_length=64, description="SHA-256 of the content that the node holds."
    )
    wanted_resource_version: str | None = Field(
        default=None,
        max_length=128,
        description=(
            "The version from which the wanted content was taken when state was written; empty if the object is no"
            " longer wanted. In state Synced it equals the held version: content is compared, so a change of status"
            " alone changes neither."
        ),
    )
    state: Literal["Synced", "Pending", "Behind", "Parked", "Deleting"] | None = Field(
        default=None,
        description=(
            "Synced: the node holds what is wanted. Pending: delivery is in progress. Behind: the node is away and the"
            " wanted version is newer than the held one. Parked: given up after the last retry. Deleting: to be"
            " removed."
        ),
    )
    reason: str | None = Field(
        default=None, max_length=1024, description="Why it is not Synced, for programs; also Paused while it is Synced."
    )
    retries: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Failed sends since it was last parked or acknowledged."
    )
    next_retry_time: str | None = Field(
        default=None, description="When a parked object is sent again.", json_schema_extra=_TIME_OR_NONE
    )
    last_ack_time: str | None = Field(
        default=None,
        description="When the node last acknowledged the object as durable.",
        json_schema_extra=_TIME_OR_NONE,
    )
    fence: Annotated[int, Field(ge=0)] | None = Field(default=None, description=FENCE, json_schema_extra=_INT64)
    conditions: Conditions


class QueueStatusField(StatusModel):
    priority: int | None = Field(default=None, description="Priority of the queue; 0 is sent first.")
    length: int | None = Field(default=None, description="Number of messages.")
    bytes: int | None = Field(default=None, description="Bytes of these messages on disk.", json_schema_extra=_INT64)
    oldest_age_seconds: int | None = Field(default=None, description="How long the oldest message has waited.")
    stalled_seconds: int | None = Field(
        default=None,
        description="How long nothing has left the queue although the node was connected. Absent while it moves.",
    )
    stalled_by: str | None = Field(default=None, description="Why it is stalled, from the last answer to the node.")


class NodeIdentityStatus(StatusModel):
    node_uid: str | None = Field(
        default=None, alias="nodeUID", description="UID of the Node for which the certificates were accepted."
    )
    issued: str | None = Field(default=None, description="When the newest certificate that was used was issued.")
    expires: str | None = Field(
        default=None, description="When the newest certificate expires, whether used or only issued."
    )
    renewal: str | None = Field(
        default=None, max_length=2048, description="Why the last renewal failed; empty if it succeeded."
    )
    held: str | None = Field(
        default=None,
        description=(
            "UID of a recreated Node for which an older certificate is held, or a hash of another claim that is held"
            " for"
            " approval: the annotation fairlead.dev/approve-identity with this value accepts it. Empty if none is held."
        ),
    )
    state: Literal["Valid", "Held", "Revoked", "Expired"] | None = Field(
        default=None, description="State of the newest certificate when this was written."
    )
    serial: str | None = Field(
        default=None,
        max_length=64,
        description="Serial number of the newest certificate that was used, in hexadecimal.",
    )
    issuer: str | None = Field(default=None, max_length=253, description="Common name of the authority that signed it.")
    former_issued: str | None = Field(
        default=None,
        alias="formerIssued",
        description=(
            "When the newest certificate of an earlier Node of this name was issued: it and older ones are held."
        ),
    )


class DeletionGuardStatus(StatusModel):
    id: str | None = Field(
        default=None, description="The annotation fairlead.dev/approve-deletions with this id approves them."
    )
    count: int | None = Field(default=None, description="Number of deletions that wait.")
    since: str | None = Field(default=None, description="When they were stopped.", json_schema_extra=_TIME)
    approved: bool | None = Field(
        default=None, description="Whether they were approved and not all of them are done yet."
    )


class NodeRoutesStatus(StatusModel):
    name: str = Field(description="Name of the EdgeRoutes object.")
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
            " newest version yet, or has not reported it; the other fields are about an older one."
        ),
    )
    message: str | None = Field(default=None, description="Why it lags.")
    accepted_routes: list[str] | None = Field(
        default=None, description="Names of the routes that are in force; the first 128."
    )
    errors: list[RouteMistake] | None = Field(
        default=None, description="Routes that are not in force, and why; the first 32."
    )
    warnings: list[RouteMistake] | None = Field(
        default=None, description="Accepted routes that may be mistakes; the first 32."
    )


class ToTableStatus(StatusModel):
    priority: int | None = Field(
        default=None, description="Priority; 0 is sent first, 2000000000 stands for routes without one."
    )
    measured: int | None = Field(
        default=None,
        description="Messages that were followed to a table since the agent started.",
        json_schema_extra=_INT64,
    )
    window: int | None = Field(default=None, description="Number of latest messages over which the times are computed.")
    p50_seconds: float | None = Field(
        default=None, alias="p50Seconds", description="Median time from acceptance on the node."
    )
    p95_seconds: float | None = Field(default=None, alias="p95Seconds", description="95th percentile of that time.")
    as_of: str | None = Field(
        default=None, description="When the hub received the newest measurement.", json_schema_extra=_TIME
    )


class EdgeNodeStatus(ResourceStatus):
    connected: bool | None = Field(default=None, description="Whether the node has a session with the hub.")
    last_contact_time: str | None = Field(
        default=None,
        description="When the hub last received something from the node, as of this write.",
        json_schema_extra=_TIME_OR_NONE,
    )
    hub: str | None = Field(default=None, description="Identity of the hub that wrote this.")
    store_epoch: str | None = Field(
        default=None, description="Random number drawn when the node last opened its store."
    )
    agent_version: str | None = Field(default=None, description="Version of the agent on the node.")
    objects_wanted: int | None = Field(default=None, description="Objects the node should hold.")
    objects_held: int | None = Field(default=None, description="Objects the node holds.")
    objects_parked: int | None = Field(default=None, description="Parked objects; see the ObjectSyncs in state Parked.")
    queued_messages: int | None = Field(default=None, description="Messages waiting on the node to be sent to the hub.")
    dead_letters: int | None = Field(default=None, description="Dead letters on the node.")
    paused: str | None = Field(
        default=None,
        description="Why nothing is sent to this node (annotation fairlead.dev/paused); empty if it is not paused.",
    )
    identity: NodeIdentityStatus | None = Field(
        default=None,
        description="Certificates of the node and the Node they were used for; kept when the Node is deleted.",
        json_schema_extra=_NONE,
    )
    deletion_guard: DeletionGuardStatus | None = Field(
        default=None,
        description="Set while deletions on this node are stopped because there were too many at once.",
        json_schema_extra=_NONE,
    )
    store_bytes: int | None = Field(
        default=None, description="Disk space on the node used by waiting messages.", json_schema_extra=_INT64
    )
    queues: list[QueueStatusField] | None = Field(
        default=None, max_length=64, description="Waiting messages, by priority."
    )
    routes: list[NodeRoutesStatus] | None = Field(
        default=None,
        max_length=64,
        description=("Result of each EdgeRoutes object that selects the node; for an away node, its last report."),
        json_schema_extra=_keyed("name"),
    )
    to_table: list[ToTableStatus] | None = Field(
        default=None,
        max_length=16,
        description=(
            "How long messages take from this node to a table, by priority and by the node's clock; for an away node,"
            " its last report. Written with other changes, and by itself when a time doubled or halved."
        ),
    )
    granted_topics: list[str] | None = Field(
        default=None, description="Topics to which this node may publish: all that its EdgeRoutes ever named."
    )
    obeyed_fence: int | None = Field(
        default=None,
        description=(
            "The fencing number that the node claims to have obeyed, if it is refused because this hub's number is"
            " lower; fairlead node approve lets it follow this hub at once."
        ),
        json_schema_extra=_INT64 | _NONE,
    )
    fence: int | None = Field(default=None, description=FENCE, json_schema_extra=_INT64)
    conditions: Conditions
