"""The rollout of an object from the API objects alone, for the command line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

from fairlead_hub import rollout
from fairlead_hub.cluster import content, sync_rule
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.explain import NOTES_MAX
from fairlead_hub.io import offline_report
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.offline_report import POD_KIND
from fairlead_hub.rollout import Rollout
from fairlead_hub.settings import NodeDelivery
from fairlead_hub.status import object_sync
from fairlead_wire.objects import api_group
from fairlead_wire.objects.api_group import EDGE_LABEL


class NoRollout(Exception):
    """There is no such object, or no rule concerns it; the message is for people."""


async def survey(kube: Kube, asked: str, namespace: str, name: str) -> Rollout:
    """The object's rollout now.  Raises ``NoRollout``, ``ApiRefused``, ``ApiUnavailable``."""
    object_cache = ObjectCache()
    placement = Placement(object_cache, NodeDelivery())
    broken: dict[str, str] = {}
    for item in await offline_report.items(kube, "api/v1/nodes", labelSelector=EDGE_LABEL):
        placement.rules.set_node(item["metadata"]["name"], item["metadata"].get("labels") or {})
    for item in await offline_report.items(kube, f"{api_group.ROOT}/syncrules"):
        try:
            placement.rules.set_rule(sync_rule.rule(item))
        except ValueError as error:
            placement.rules.break_rule(sync_rule.unreadable(item, str(error)))
            broken[f"SyncRule {item['metadata']['name']} cannot be read: {error}"] = json.dumps(item.get("spec"))
    live, problem = await offline_report.object_of(kube, placement, object_cache, asked, namespace, name)
    if live is None:
        reasons = [problem[1] if problem is not None else "there is no such object", *broken]
        raise NoRollout("; ".join(reasons[: 1 + NOTES_MAX]))
    if any(entry.select == "referenced" for _, entry in placement.rules.entries(live.group_kind)):
        await _put_pods(kube, placement, object_cache)
    records = await _records(kube, live)
    accounts = {
        item["metadata"]["name"]: item for item in await offline_report.items(kube, f"{api_group.ROOT}/edgenodes")
    }
    routes = placement.rules.routes.get(name) if live.group_kind == content.EDGE_ROUTES else None
    doubts = _doubts(placement, live, broken)
    return rollout.judge(live, placement.nodes_for(live), records, accounts, doubts, routes)


def _doubts(placement: Placement, live: LiveObject, broken: Mapping[str, str]) -> list[str]:
    """Unreadable rules that may select ``live``: itself if it is EdgeRoutes, or a rule that mentions its kind."""
    if live.group_kind == content.EDGE_ROUTES:
        why = placement.rules.broken.get(f"edgeroutes/{live.resource.name}")
        return [f"EdgeRoutes {live.resource.name} cannot be read: {why}"] if why is not None else []
    return [reason for reason, spec in broken.items() if live.group_kind[1] in spec][:NOTES_MAX]


async def _put_pods(kube: Kube, placement: Placement, object_cache: ObjectCache) -> None:
    """Load the Pods of edge nodes: objects they refer to are placed with them."""
    for raw in await offline_report.raw_items(kube, "api/v1/pods"):
        with contextlib.suppress(content.Unusable):
            pod = content.build(raw, POD_KIND)
            if pod.node_name in placement.rules.nodes:
                object_cache.put(pod)


async def _records(kube: Kube, live: LiveObject) -> list[object_sync.Record]:
    namespace = live.resource.namespace
    collection = (
        f"{api_group.ROOT}/namespaces/{namespace}/objectsyncs" if namespace else f"{api_group.ROOT}/clusterobjectsyncs"
    )
    kind = object_sync.shortened(live.group_kind[1], object_sync.LABEL_CHARS_MAX)
    listed = await offline_report.items(kube, collection, labelSelector=f"{object_sync.KIND_LABEL}={kind}")
    found = [object_sync.parse(item) for item in listed]
    return [record for record in found if record is not None and record.uid == live.uid]
