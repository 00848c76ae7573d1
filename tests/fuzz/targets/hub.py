"""What the API server sends the hub: objects that users wrote, some of them hostile."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.fuzz.target import Target, promise
from tests.support.hubs.live import CONFIG_MAP, POD

from fairlead_edge.objects import metastore as edge_content
from fairlead_edge.objects.metastore import Put
from fairlead_hub.cluster import api_json, content, sync_rule
from fairlead_hub.cluster.content import ServedKind, Unusable
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.core.rules import RuleReader
from fairlead_hub.delivery.identities import Identities, NodeCertificate
from fairlead_hub.identity.renewal import RenewalPlan
from fairlead_hub.settings import NodeDelivery
from fairlead_hub.status import edge_node, object_sync
from fairlead_hub.status.edge_routes_controller import EdgeRoutesController
from fairlead_hub.status.rule_statuses import RuleStatuses
from fairlead_hub.status.status_cache import Observed, StatusCache
from fairlead_hub.wall_clock import WallClock
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec
from fairlead_wire.objects import resource

NODE = ServedKind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)


def listed(text: bytes) -> None:
    """Each object of a list is read independently."""
    found = api_json.page(text)
    promise(bool(found.version), "a list has a version")
    for each in found.items:
        _looked_at(bytes(each))


def watched(line: bytes) -> None:
    found = api_json.event(line)
    api_json.version(found.object)
    _looked_at(bytes(found.object))


def _looked_at(raw: bytes) -> None:
    for read in (api_json.header, api_json.own, api_json.document):
        try:
            read(raw)
        except Malformed:
            continue


def delivered(raw: bytes) -> None:
    """What the hub sends, the edge takes: nothing is parked there that could be known here."""
    for kind in (CONFIG_MAP, POD, NODE):
        live = content.build(raw, kind)
        if live.problem is not None:
            promise(
                bool(live.problem.reason) and not live.content, "what is not delivered has a reason, and no content"
            )
            continue
        plain = codec.unpack(live.encoding, live.content)
        promise(
            msgspec.json.encode(content.unpacked(live), order="sorted") == plain, "the same content, the same bytes"
        )
        put = Put(
            resource=resource.parse(live.path),
            uid=live.uid,
            digest=live.digest,
            resource_version=live.version,
            content=plain,
        )
        promise(edge_content.verify(put).kind == kind.kind, "the edge takes what the hub sends")


def _document(raw: bytes) -> dict[str, Any]:
    """As the watch hands it on: only what has a name."""
    body = api_json.document(raw)[0]
    api_json.header_of(body)
    return body


def _reader() -> tuple[Placement, RuleReader]:
    cache, placement = StatusCache(1), Placement(ObjectCache(), NodeDelivery())
    routes = EdgeRoutesController({}, placement, cache)
    return placement, RuleReader(placement, RuleStatuses(placement, routes, cache, WallClock(lambda: 0.0)))


def rule(raw: bytes) -> None:
    """Readable, or not and then it is known what it may have selected."""
    body = _document(raw)
    _, reader = _reader()
    try:
        found = sync_rule.rule(body)
    except ValueError as error:
        promise(bool(str(error)), "a refusal has a reason")
        reader.unreadable(sync_rule.unreadable(body, str(error)))
        raise
    reader.read(found)
    for entry in found.entries:
        entry.labels.matches({"app": "till"})
    found.nodes.matches({})
    if found.form:
        again = sync_rule.rule({"metadata": body["metadata"], "spec": msgspec.json.decode(found.form)})
        promise(again == found, "the form that is kept says the same")


def routes(raw: bytes) -> None:
    """Of an EdgeRoutes object as it came: read, or broken with a reason; never a crash."""
    live = content.build(
        raw,
        ServedKind(group="fairlead.dev", version="v1alpha1", kind="EdgeRoutes", plural="edgeroutes", namespaced=False),
    )
    placement, reader = _reader()
    reader.routes_seen(live)
    reader.routes_seen(live)
    name = live.resource.name
    known = name in placement.rules.routes or f"edgeroutes/{name}" in placement.rules.broken
    promise(known, "it is known, or known to be unreadable")


def edge_node_read(raw: bytes) -> None:
    """An EdgeNode that was edited by hand: the hub goes on from what it can believe."""
    own = api_json.own(raw)
    header = own.header
    observed = Observed(
        version=header.version, generation=header.generation, status=own.status, head={}, uid=header.uid
    )
    read = edge_node.readable(observed)
    edge_node.granted_topics(read)
    identities = Identities(RenewalPlan(WallClock(lambda: 0.0), lambda: 0.5))
    identities.observed("edge-1", read.status, header.annotations or {})
    identities.judge("edge-1", "uid-2", NodeCertificate(issued="2026-01-01T00:00:00Z", expires="2027-01-01T00:00:00Z"))
    identities.expired("2026-11-22T00:00:00Z")
    msgspec.json.encode(identities.status("edge-1"))


def object_sync_read(raw: bytes) -> None:
    """An ObjectSync that was made by hand: a record, or none of ours; it never raises."""
    body = _document(raw)
    record = object_sync.parse(body)
    if record is not None:
        promise(record.says_the_same(record), "a record says what it says")
        msgspec.json.encode(object_sync.head(record))
        object_sync.status(record, [], 1, "2026-11-22T10:00:00Z", 1)


WORDS = tuple(
    f'"{each}"'.encode()
    for each in """apiVersion kind metadata name namespace uid resourceVersion labels annotations managedFields spec
    status nodeSelector matchLabels matchExpressions key operator values In NotIn Exists resources
    labelSelector namespaces select bound referenced all delivery priority backoff_retries routes topic
    route storeAndForwardConfiguration schemaVersion timeToLiveSecs lastReadable observedGeneration
    conditions grantedTopics identity nodeUID issued expires held paused deletionGuard nodeName
    objectUID state retries items continue ADDED MODIFIED BOOKMARK object""".split()  # noqa: SIM905
)
TARGETS = (
    Target(
        name="api-list",
        says="A list of the API server: one unreadable object costs nothing but itself.",
        read=listed,
        refusals=(Malformed,),
        shape="json",
        words=WORDS,
    ),
    Target(
        name="api-event",
        says="A line of a watch.",
        read=watched,
        refusals=(Malformed,),
        shape="json",
        words=WORDS,
    ),
    Target(
        name="hub-object",
        says="An object on its way to edges: what the hub sends, an edge takes.",
        read=delivered,
        refusals=(Unusable,),
        shape="json",
        words=WORDS,
    ),
    Target(
        name="hub-sync-rule",
        says="A SyncRule that slipped past its definition: read, or refused with what it may have selected.",
        read=rule,
        refusals=(Malformed, ValueError),
        shape="json",
        words=WORDS,
        tries=200,
    ),
    Target(
        name="hub-edge-routes",
        says="An EdgeRoutes object: known, or known to be unreadable.",
        read=routes,
        refusals=(Unusable,),
        shape="json",
        words=WORDS,
        tries=200,
    ),
    Target(
        name="hub-edge-node",
        says="An EdgeNode that somebody edited: the hub goes on from what it can believe.",
        read=edge_node_read,
        refusals=(Malformed,),
        shape="json",
        words=WORDS,
    ),
    Target(
        name="hub-object-sync",
        says="An ObjectSync that somebody made: a record, or none of ours.",
        read=object_sync_read,
        refusals=(Malformed,),
        shape="json",
        words=WORDS,
    ),
)
