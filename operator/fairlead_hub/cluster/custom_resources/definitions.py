"""Generates the CustomResourceDefinitions from the models: names, columns, schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import pydantic

from fairlead_hub.cluster.custom_resources import (
    identity_specs,
    route_specs,
    specs,
    statuses,
    structural_schema,
)
from fairlead_wire.objects import api_group


class PrinterColumn(msgspec.Struct, frozen=True):
    """A column of ``kubectl get``; wide columns are shown only with ``-o wide``."""

    name: str
    path: str
    type: Literal["string", "integer", "boolean", "date"] = "string"
    wide: bool = False


class ResourceDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One custom resource; ``comment`` is the first line of its file."""

    kind: str
    scope: Literal["Cluster", "Namespaced"]
    plural: str
    singular: str
    short: str
    comment: str
    description: str
    columns: tuple[PrinterColumn, ...]
    spec: type[pydantic.BaseModel] | None = None
    spec_description: str = ""
    spec_required: bool = True
    status: type[pydantic.BaseModel]
    status_description: str = "Written only by the hub."
    selectable: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The manifest for ``kubectl apply``."""
        version: dict[str, Any] = {
            "name": api_group.VERSION,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": path} for path in self.selectable],
            "additionalPrinterColumns": [_column(each) for each in self.columns],
            "schema": {"openAPIV3Schema": self._schema()},
        }
        if not self.selectable:
            del version["selectableFields"]
        names = {
            "plural": self.plural,
            "singular": self.singular,
            "kind": self.kind,
            "listKind": f"{self.kind}List",
            "shortNames": [self.short],
            "categories": ["fairlead"],
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{api_group.GROUP}"},
            "spec": {"group": api_group.GROUP, "scope": self.scope, "names": names, "versions": [version]},
        }

    def _schema(self) -> dict[str, Any]:
        properties: dict[str, Any] = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
        }
        if self.spec is not None:
            properties["spec"] = {"description": self.spec_description, **structural_schema.of(self.spec)}
        properties["status"] = {"description": self.status_description, **structural_schema.of(self.status)}
        required = {"required": ["spec"]} if self.spec is not None and self.spec_required else {}
        return {"description": self.description, "type": "object", **required, "properties": properties}


def _column(column: PrinterColumn) -> dict[str, Any]:
    wide = {"priority": 1} if column.wide else {}
    return {"name": column.name, "type": column.type, "jsonPath": column.path, **wide}


def _condition(type: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{type}")].{field}'


_AGE = PrinterColumn("Age", ".metadata.creationTimestamp", "date")
_MESSAGE = PrinterColumn("Message", ".status.message")
_RECORD: Mapping[str, Any] = {
    "description": (
        "What one edge node holds of one object. The node's store is authoritative; this record may lag behind it, but"
        " never leads."
    ),
    "columns": (
        PrinterColumn("Node", ".spec.nodeName"),
        PrinterColumn("Kind", ".spec.objectKind"),
        PrinterColumn("Name", ".spec.objectName"),
        PrinterColumn("Wanted", ".status.wantedResourceVersion"),
        PrinterColumn("Held", ".status.objectResourceVersion"),
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Retries", ".status.retries", "integer"),
        _AGE,
        PrinterColumn("Since", _condition("Synced", "lastTransitionTime"), "date", wide=True),
        PrinterColumn("Reason", ".status.reason", wide=True),
        PrinterColumn("Message", _condition("Synced", "message"), wide=True),
        PrinterColumn("Next retry", ".status.nextRetryTime", wide=True),
    ),
    "spec": statuses.ObjectSyncSpec,
    "spec_description": "Which object on which node; immutable.",
    "status": statuses.ObjectSyncStatus,
    "status_description": "State of the object on the node; written only by the hub.",
    "selectable": (".spec.nodeName",),
}


ALL = (
    ResourceDefinition(
        kind="SyncRule",
        scope="Cluster",
        plural="syncrules",
        singular="syncrule",
        short="syncrule",
        comment="Selects which kinds go to which nodes.  Without a SyncRule only EdgeRoutes are sent.",
        description="Selects which kinds of objects go to which edge nodes.",
        columns=(
            PrinterColumn("Nodes", ".status.matchedNodes", "integer"),
            PrinterColumn("Objects", ".status.matchedObjects", "integer"),
            PrinterColumn("Accepted", _condition("Accepted", "status")),
            PrinterColumn("Listed", _condition("Listed", "status")),
            _AGE,
            _MESSAGE,
        ),
        spec=specs.SyncRuleSpec,
        spec_description="The objects to deliver, and the edge nodes that get them.",
        status=statuses.SyncRuleStatus,
    ),
    ResourceDefinition(
        kind="EdgeRoutes",
        scope="Cluster",
        plural="edgeroutes",
        singular="edgeroute",
        short="eroutes",
        comment="Routes for what applications publish at the edge; delivered like any other object.",
        description="Routes of edge nodes: a route manifest and the nodes to which it applies.",
        columns=(
            PrinterColumn("Nodes", ".status.matchedNodes", "integer"),
            PrinterColumn("Accepted", ".status.acceptedNodes", "integer"),
            PrinterColumn("Refused", ".status.refusedNodes", "integer"),
            PrinterColumn("Lagging", ".status.laggingNodes", "integer"),
            _AGE,
            _MESSAGE,
        ),
        spec=route_specs.EdgeRoutesSpec,
        spec_description="Selected nodes and their routes, as in the manifest of Azure IoT Edge.",
        status=statuses.EdgeRoutesStatus,
    ),
    ResourceDefinition(
        kind="ObjectSync",
        scope="Namespaced",
        plural="objectsyncs",
        singular="objectsync",
        short="osync",
        comment="What one edge node holds of one object, in the object's namespace.  Written by the hub, read by"
        " people.",
        **_RECORD,
    ),
    ResourceDefinition(
        kind="ClusterObjectSync",
        scope="Cluster",
        plural="clusterobjectsyncs",
        singular="clusterobjectsync",
        short="cosync",
        comment="What one edge node holds of one cluster-scoped object.  Written by the hub, read by people.",
        **_RECORD,
    ),
    ResourceDefinition(
        kind="EdgeNode",
        scope="Cluster",
        plural="edgenodes",
        singular="edgenode",
        short="enode",
        comment=(
            "The hub's view of one edge node, named as its Node.  Written by the hub on transitions, otherwise at"
            " most every"
            " few minutes."
        ),
        description=(
            'The hub\'s view of one edge node. While the annotation fairlead.dev/paused: "<why>" is set, nothing is'
            ' sent to the node; fairlead.dev/approve-deletions: "<id>" approves the deletions that its deletion guard'
            " stopped under this id."
        ),
        columns=(
            PrinterColumn("Connected", ".status.connected", "boolean"),
            PrinterColumn("Objects wanted", ".status.objectsWanted", "integer"),
            PrinterColumn("Objects held", ".status.objectsHeld", "integer"),
            PrinterColumn("Parked", ".status.objectsParked", "integer"),
            PrinterColumn("Deletions stopped", ".status.deletionGuard.count", "integer"),
            PrinterColumn("Queued", ".status.queuedMessages", "integer"),
            PrinterColumn("Last contact", ".status.lastContactTime", "date"),
            PrinterColumn("Identity", ".status.identity.state"),
            PrinterColumn("Paused", ".status.paused"),
            PrinterColumn("Rules", _condition("RulesReadable", "reason")),
            _AGE,
            PrinterColumn("Agent", ".status.agentVersion", wide=True),
            PrinterColumn("Hub", ".status.hub", wide=True),
            PrinterColumn("Dead letters", ".status.deadLetters", "integer", wide=True),
            PrinterColumn("Expires", ".status.identity.expires", wide=True),
            PrinterColumn("To table p95", ".status.toTable[0].p95Seconds", wide=True),  # of the most urgent priority
        ),
        spec=identity_specs.EdgeNodeSpec,
        spec_description="Permanent decisions of people about the node; usually absent.",
        spec_required=False,
        status=statuses.EdgeNodeStatus,
        status_description="Written only by the hub, on transitions and every few minutes.",
    ),
    ResourceDefinition(
        kind="JoinToken",
        scope="Cluster",
        plural="jointokens",
        singular="jointoken",
        short="jtoken",
        comment="Admits one or more nodes.  Whoever may create one may admit nodes.  The secret itself is not stored.",
        description=(
            "A token with which devices get their first certificate. Created by fairlead token create, which shows the"
            " secret once; its name is the id in the token's text."
        ),
        columns=(
            PrinterColumn("Node", ".spec.node"),
            PrinterColumn("Pattern", ".spec.pattern"),
            PrinterColumn("Uses", ".spec.uses", "integer"),
            PrinterColumn("Used by", ".status.usedBy"),
            PrinterColumn("Expires", ".spec.expires"),  # kubectl shows a future date as <invalid>
            _AGE,
            PrinterColumn("Replace", ".spec.replace", "boolean", wide=True),
            PrinterColumn("Hub", ".status.url", wide=True),
        ),
        spec=identity_specs.JoinTokenSpec,
        spec_description="Which nodes it admits; immutable.",
        status=identity_specs.JoinTokenStatus,
    ),
)
