"""What the hub writes into custom resources: their status, and the records it keeps itself.

Nothing of it is read with these models (``edge_node``, ``object_sync`` read what they need, whatever a person wrote
there); they are what the definitions and ``kubectl explain`` say of it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field
from pydantic.alias_generators import to_camel

_ATOMIC: dict[str, Any] = {"x-kubernetes-map-type": "atomic"}
_IMMUTABLE: dict[str, Any] = {
    "rule": "self == oldSelf",
    "message": "spec says which object on which node and never changes; delete the record instead",
}
_INT64: dict[str, Any] = {"format": "int64"}
_TIME: dict[str, Any] = {"format": "date-time"}
_TIME_OR_NONE: dict[str, Any] = {**_TIME, "nullable": True}
_NONE: dict[str, Any] = {"nullable": True}
FENCE = "Fencing number of the hub that wrote this; an older hub may not write after it."


def _keyed(key: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class StatusModel(pydantic.BaseModel):
    """Fields that are not there yet are left out."""

    model_config = pydantic.ConfigDict(alias_generator=to_camel, extra="forbid")


class ResourceStatus(StatusModel):
    model_config = pydantic.ConfigDict(json_schema_extra=_ATOMIC)


class ConditionStatus(StatusModel):
    type: str = Field(description="Which condition.", max_length=316)
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: str | None = Field(default=None, description="One CamelCase word, for programs.", max_length=1024)
    message: str | None = Field(default=None, description="For people; may be empty.", max_length=32768)
    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="The generation of the object that was judged.", json_schema_extra=_INT64
    )
    last_transition_time: str = Field(description="When status last changed.", json_schema_extra=_TIME)


Conditions = Annotated[
    list[ConditionStatus] | None,
    Field(
        default=None,
        max_length=16,
        description="What is true of it now, each with a reason for programs and a message for people.",
        json_schema_extra=_keyed("type"),
    ),
]
ObservedGeneration = Annotated[
    int | None,
    Field(default=None, description="The generation of the object that was judged.", json_schema_extra=_INT64),
]


class LastReadable(StatusModel):
    generation: int | None = Field(
        default=None, description="The generation it was read in; 0 when that is not known.", json_schema_extra=_INT64
    )
    spec: str | None = Field(
        default=None, max_length=393216, description="As JSON text; empty when it is too large to be kept, or unknown."
    )


class SyncRuleStatus(ResourceStatus):
    observed_generation: ObservedGeneration
    matched_nodes: int | None = Field(default=None, description="Edge nodes it selects.")
    matched_objects: int | None = Field(default=None, description="Objects it selects, for whichever node.")
    message: str | None = Field(
        default=None,
        description="What is wrong with the rule and what it does meanwhile, in a sentence; empty when nothing is.",
    )
    last_readable: LastReadable | None = Field(
        default=None,
        description=(
            "The spec as it could be read last. It stays in force while the rule cannot be read, also after the hub was"
            " started anew."
        ),
        json_schema_extra=_NONE,
    )
    unlisted_kinds: list[str] | None = Field(
        default=None,
        description="Kinds, or versions of them, that cannot be listed, and why; what nodes hold of them stays.",
    )
    conditions: Conditions


class RouteMistake(StatusModel):
    route: str | None = Field(default=None, description="Name of the route.")
    message: str | None = Field(default=None, description="What is wrong.")
    line: int | None = Field(default=None, description="From 1.")
    column: int | None = Field(default=None, description="From 1.")
    end_column: int | None = Field(default=None, description="Where it ends.")


class FailingNode(StatusModel):
    node: str = Field(description="The edge node.")
    state: Literal["Refused", "Lagging"] = Field(
        description=(
            "Refused: some routes are not in force there. Lagging: it does not run the newest version yet, or has not"
            " said so."
        )
    )
    message: str | None = Field(default=None, description="Why it lags.")
    errors: list[RouteMistake] | None = Field(
        default=None, max_length=3, description="The first routes that are refused, and why."
    )


class EdgeRoutesStatus(ResourceStatus):
    observed_generation: ObservedGeneration
    matched_nodes: int | None = Field(default=None, description="Edge nodes it selects.")
    accepted_nodes: int | None = Field(default=None, description="Nodes that accepted all of it.")
    refused_nodes: int | None = Field(
        default=None, description="Nodes that refuse some of its routes; the others run there."
    )
    lagging_nodes: int | None = Field(
        default=None, description="Nodes that do not run its newest version yet, or have not said so."
    )
    message: str | None = Field(
        default=None,
        description="What is wrong, what is warned of and who lags, in a sentence; empty when nothing is.",
    )
    failing_nodes: list[FailingNode] | None = Field(
        default=None,
        max_length=50,
        description=(
            "The first of the nodes that refuse some of it, then of those that lag, by name. What one node makes of it"
            " stands in that node's EdgeNode (status.routes)."
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
        description="UID of the object; a namesake created later has a record of its own.",
    )


class ObjectSyncStatus(ResourceStatus):
    object_resource_version: str | None = Field(
        default=None,
        max_length=128,
        description="The version the edge last acknowledged as durable; empty when it has none yet.",
    )
    object_digest: str | None = Field(default=None, max_length=64, description="SHA-256 of the content the edge holds.")
    wanted_resource_version: str | None = Field(
        default=None,
        max_length=128,
        description=(
            "The version the wanted content came from, as of when state was written; empty when the object is no longer"
            " wanted. When Synced it is the held version: content is compared, so a change of status alone moves"
            " neither."
        ),
    )
    state: Literal["Synced", "Pending", "Behind", "Parked", "Deleting"] | None = Field(
        default=None,
        description=(
            "Synced: the node holds what is wanted. Pending: on its way. Behind: the node is away and the wanted"
            " version is newer than the held one. Parked: given up for now. Deleting: to be removed."
        ),
    )
    reason: str | None = Field(
        default=None, max_length=1024, description="Why it is not Synced, for programs; Paused also where it is."
    )
    retries: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Sends that failed since it was last parked or acknowledged."
    )
    next_retry_time: str | None = Field(
        default=None, description="When a parked object is tried again.", json_schema_extra=_TIME_OR_NONE
    )
    last_ack_time: str | None = Field(
        default=None, description="When the node last acknowledged it as durable.", json_schema_extra=_TIME_OR_NONE
    )
    fence: Annotated[int, Field(ge=0)] | None = Field(default=None, description=FENCE, json_schema_extra=_INT64)
    conditions: Conditions


class QueueStatusField(StatusModel):
    priority: int | None = Field(default=None, description="0 goes first.")
    length: int | None = Field(default=None, description="Messages.")
    bytes: int | None = Field(default=None, description="Their bytes on disk.", json_schema_extra=_INT64)
    oldest_age_seconds: int | None = Field(default=None, description="How long the oldest has waited.")
    stalled_seconds: int | None = Field(
        default=None,
        description="How long nothing of it was taken although the node was connected. Absent while it moves.",
    )
    stalled_by: str | None = Field(default=None, description="Why, as the last answer to the node said.")


class NodeIdentityStatus(StatusModel):
    node_uid: str | None = Field(default=None, alias="nodeUID", description="Of the Node they were taken for.")
    issued: str | None = Field(default=None, description="When the newest that was used was issued.")
    expires: str | None = Field(default=None, description="When the newest ends, used or only issued yet.")
    renewal: str | None = Field(
        default=None, max_length=2048, description="Why the last renewal failed. Empty when it did not."
    )
    held: str | None = Field(
        default=None,
        description=(
            "UID of a Node made anew, for which an older certificate waits, or what else of its certificate waits for a"
            " person: annotation fairlead.dev/approve-identity with this value takes it. Empty when nothing waits."
        ),
    )
    state: Literal["Valid", "Held", "Revoked", "Expired"] | None = Field(
        default=None, description="What the newest certificate is worth, as of this writing."
    )
    serial: str | None = Field(
        default=None, max_length=64, description="Of the newest certificate that was used, in hexadecimal."
    )
    issuer: str | None = Field(default=None, max_length=253, description="Common name of the authority that signed it.")
    former_issued: str | None = Field(
        default=None,
        alias="formerIssued",
        description="When the newest used with an earlier Node of this name was issued: that and older ones are held.",
    )


class DeletionGuardStatus(StatusModel):
    id: str | None = Field(
        default=None, description="Annotation fairlead.dev/approve-deletions with this id lets them go."
    )
    count: int | None = Field(default=None, description="How many deletions wait.")
    since: str | None = Field(default=None, description="When they were stopped.", json_schema_extra=_TIME)
    approved: bool | None = Field(default=None, description="They were approved, and have not all gone.")


class NodeRoutesStatus(StatusModel):
    name: str = Field(description="The EdgeRoutes object.")
    uid: str | None = Field(default=None, description="Its UID.")
    observed_generation: int | None = Field(
        default=None,
        description="The generation that the node judged. Absent while it has judged an older version only.",
        json_schema_extra=_INT64,
    )
    resource_version: str | None = Field(default=None, description="The version that the node judged.")
    state: Literal["Accepted", "Refused", "Lagging"] | None = Field(
        default=None,
        description=(
            "Accepted: all routes are in force. Refused: those in errors are not. Lagging: the node does not run the"
            " newest version yet, or has not said so; the rest is of an older one."
        ),
    )
    message: str | None = Field(default=None, description="Why it lags.")
    accepted_routes: list[str] | None = Field(default=None, description="Names of the routes in force; the first 128.")
    errors: list[RouteMistake] | None = Field(default=None, description="Routes that are not, and why; the first 32.")
    warnings: list[RouteMistake] | None = Field(
        default=None, description="What is accepted and perhaps not meant; the first 32."
    )


class ToTableStatus(StatusModel):
    priority: int | None = Field(default=None, description="0 goes first; 2000000000: routes that name none.")
    measured: int | None = Field(
        default=None,
        description="Messages that were followed to their table since the agent's start.",
        json_schema_extra=_INT64,
    )
    window: int | None = Field(default=None, description="How many of them, the latest, the times are of.")
    p50_seconds: float | None = Field(
        default=None, alias="p50Seconds", description="Half of them took no longer, from acceptance on the node."
    )
    p95_seconds: float | None = Field(default=None, alias="p95Seconds", description="95 of 100 took no longer.")
    as_of: str | None = Field(
        default=None, description="When the hub heard of the newest of them.", json_schema_extra=_TIME
    )


class EdgeNodeStatus(ResourceStatus):
    connected: bool | None = Field(default=None, description="Whether the node has a session with the hub.")
    last_contact_time: str | None = Field(
        default=None,
        description="When the hub last heard from it, as of this writing.",
        json_schema_extra=_TIME_OR_NONE,
    )
    hub: str | None = Field(default=None, description="Which hub wrote this.")
    store_epoch: str | None = Field(
        default=None, description="The random number of the edge's last opening of its store."
    )
    agent_version: str | None = Field(default=None, description="Version of the agent on the node.")
    objects_wanted: int | None = Field(default=None, description="Objects the node should hold.")
    objects_held: int | None = Field(default=None, description="Objects the node holds.")
    objects_parked: int | None = Field(
        default=None, description="Objects given up for now; see the ObjectSyncs in state Parked."
    )
    queued_messages: int | None = Field(default=None, description="Messages that wait on the node to go up.")
    dead_letters: int | None = Field(default=None, description="Messages on the node that no endpoint would take.")
    paused: str | None = Field(
        default=None,
        description="Why nothing is sent to this node (annotation fairlead.dev/paused); empty when it is not paused.",
    )
    identity: NodeIdentityStatus | None = Field(
        default=None,
        description="Which life of the Node its certificates were used in; kept when the Node is deleted.",
        json_schema_extra=_NONE,
    )
    deletion_guard: DeletionGuardStatus | None = Field(
        default=None,
        description="Deletions on this node are stopped, because they were too many at once.",
        json_schema_extra=_NONE,
    )
    store_bytes: int | None = Field(
        default=None, description="Bytes those messages take on its disk.", json_schema_extra=_INT64
    )
    queues: list[QueueStatusField] | None = Field(
        default=None, max_length=64, description="Messages that wait, by priority."
    )
    routes: list[NodeRoutesStatus] | None = Field(
        default=None,
        max_length=64,
        description=(
            "What the node makes of each EdgeRoutes object that selects it; of a node that is away, what it said last."
        ),
        json_schema_extra=_keyed("name"),
    )
    to_table: list[ToTableStatus] | None = Field(
        default=None,
        max_length=16,
        description=(
            "How long messages take from this node to a table, by priority, by the node's own clock; of a node that is"
            " away, what it said last. Written with other news, by itself where a time doubled or halved."
        ),
    )
    granted_topics: list[str] | None = Field(
        default=None, description="Topics this node may publish to: all its EdgeRoutes ever named."
    )
    obeyed_fence: int | None = Field(
        default=None,
        description=(
            "The fencing number of a hub that the node says it has obeyed, where it is refused because this hub's is"
            " lower; fairlead node approve lets it follow this hub at once."
        ),
        json_schema_extra=_INT64 | _NONE,
    )
    fence: int | None = Field(default=None, description=FENCE, json_schema_extra=_INT64)
    conditions: Conditions
